"""What lies between a mount and its store: proxies, regions, names of buckets; and who pays."""

import contextlib
import email.utils
import http.client
import http.server
import re
import socket
import threading
import time
import urllib.parse

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import environment, mounts_below, shardfs
from lib.teststore import TestStore
from lib.web import LocalServer, Web


class Proxy(LocalServer):
    """Forwards GET and HEAD in absolute form, and tunnels CONNECT; `seen` has the targets."""

    def __init__(self):
        self.seen = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.append(self.path)
                url = urllib.parse.urlsplit(self.path)
                connection = http.client.HTTPConnection(url.hostname, url.port)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "proxy-connection"}
                connection.request(self.command, url.path + (f"?{url.query}" if url.query else ""), headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                connection.close()

            do_HEAD = do_GET  # noqa: N815

            def do_CONNECT(self):
                outer.seen.append(self.path)
                host, port = self.path.split(":")
                with socket.create_connection((host, int(port))) as store:
                    self.send_response_only(200)
                    self.end_headers()
                    back = threading.Thread(target=pump, args=(store, self.connection), daemon=True)
                    back.start()
                    pump(self.connection, store)
                    back.join()
                self.close_connection = True

            def log_message(self, *_):
                pass

        def pump(source, target):
            with contextlib.suppress(OSError):
                while piece := source.recv(65536):
                    target.sendall(piece)
                target.shutdown(socket.SHUT_WR)

        super().__init__(Handler, block_on_close=False)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_requests_go_through_the_proxy(store, mount, variable):
    store.put_generated("a", 3 * MIB, 1)
    with Proxy() as proxy:
        mounted = mount(env={variable: proxy.url})
        compare(read_all(mounted.path / "a"), 3 * MIB, 1)
        mounted.umount()
    assert all(target.startswith(store.endpoint) for target in proxy.seen)
    assert any(target.endswith("/a") for target in proxy.seen)


def test_no_proxy_goes_before_the_proxy(store, mount):
    store.put_generated("a", MIB, 1)
    with Proxy() as proxy:
        mounted = mount(env={"HTTP_PROXY": proxy.url, "HTTPS_PROXY": proxy.url, "NO_PROXY": "example.com,127.0.0.1"})
        compare(read_all(mounted.path / "a"), MIB, 1)
        mounted.umount()
        assert proxy.seen == []


def test_tls_through_a_proxy(mount, folder):
    with TestStore(tls=True) as store, Proxy() as proxy:
        store.put_generated("a", MIB, 1)
        mounted = mount(store=store, env={"HTTPS_PROXY": proxy.url, "HTTP_PROXY": "http://127.0.0.1:9"})
        compare(read_all(mounted.path / "a"), MIB, 1)
        mounted.umount()
        assert proxy.seen and set(proxy.seen) == {f"127.0.0.1:{store.port}"}


def test_instance_metadata_is_never_asked_through_a_proxy(store, mount):
    def metadata(_method, path, *_):
        if path.endswith("/token"):
            return 200, "T"
        if path.endswith("/security-credentials/"):
            return 200, "role"
        return 200, (f'{{"AccessKeyId": "{store.access_key}", "SecretAccessKey": "{store.secret_key}", '
                     '"Expiration": "2126-01-01T00:00:00Z"}')

    store.put("a", b"bytes")
    with Proxy() as proxy, Web(metadata) as service:
        mounted = mount(env={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "false",
                             "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url, "HTTP_PROXY": proxy.url})
        assert (mounted.path / "a").read_bytes() == b"bytes"
        mounted.umount()
        assert len(service.seen) == 3
        assert proxy.seen and all(target.startswith(store.endpoint) for target in proxy.seen)


def test_proxy_that_is_not_there_is_named(store, folder):
    (folder / "point").mkdir()
    env = environment(store, HTTP_PROXY="http://127.0.0.1:9")
    done = shardfs("mount", store.url(), folder / "point", "--endpoint-url", store.endpoint, "--cache-size", "0", env=env)
    assert done.returncode == 1 and "port 9" in done.stderr and not mounts_below(folder)


def test_bucket_of_another_region_is_found_when_none_was_named(mount):
    with TestStore(region="ap-south-1") as store:
        store.put_generated("a", MIB, 1)
        mounted = mount(store=store, region=None, env={"AWS_REGION": "", "AWS_DEFAULT_REGION": ""})
        compare(read_all(mounted.path / "a"), MIB, 1)
        assert mounted.log.count("is in region ap-south-1") == 1
        mounted.umount()


def test_wrong_region_is_refused_with_the_right_one(folder):
    with TestStore(region="ap-south-1") as store:
        (folder / "point").mkdir()
        done = shardfs("mount", store.url(), folder / "point", "--endpoint-url", store.endpoint, "--region", "eu-west-1",
                       "--cache-size", "0", env=environment(store))
        assert done.returncode == 1 and "ap-south-1" in done.stderr and not mounts_below(folder)


def test_clock_that_is_off_is_corrected(store, mount):
    """The store refuses the time of a request; the next one is signed with the store's clock."""
    store.put_generated("a", MIB, 1)
    refused = store.fault("status", {"kind": "list"}, status=403, code="RequestTimeTooSkewed",
                          headers={"Date": email.utils.formatdate(time.time() + 360, usegmt=True)})
    mounted = mount()
    compare(read_all(mounted.path / "a"), MIB, 1)
    assert store.fired(refused) == 1
    assert re.search(r"this machine's clock is 3\d\d s behind the store's", mounted.log)


@pytest.mark.parametrize("pays", [True, False])
def test_requester_pays(store, mount, pays):
    store.put_generated("a", MIB, 1)
    asked = store.fault("headers", {"header": "x-amz-request-payer"}, times=-1)
    mounted = mount(requester_pays=pays)
    compare(read_all(mounted.path / "a"), MIB, 1)
    assert (store.fired(asked) > 1) == pays


@pytest.mark.parametrize("etag", ["unquoted", 'W/"weak"', '"with-part-count-3"'])
def test_etags_of_all_kinds(store, mount, etag):
    store.put_generated("a", 9 * MIB, 1, etag=etag)
    mounted = mount()
    compare(read_all(mounted.path / "a"), 9 * MIB, 1)
    mounted.remount()
    compare(read_all(mounted.path / "a"), 9 * MIB, 1)
