"""TestStore: starts the program teststore, an S3 server for tests, and speaks to its control interface.

    with TestStore() as store:
        store.put_generated("train/0.tar", 512 << 20, seed=7)
        store.fault("reset", match={"kind": "get"}, at_byte=1000, times=2)
        subprocess.run([..., store.url("train/")], env={**os.environ, **store.env()})
        assert store.stats().key("train/0.tar").body_bytes == 512 << 20

What each fault does is told at the head of tools/teststore/faults.h. Keys may be str or bytes; in what comes back they
are str, with undecodable bytes as surrogates. Only the standard library is needed; numpy makes generated() faster.
"""

import base64
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import urllib.parse

try:
    import numpy
except ImportError:
    numpy = None

_MASK = (1 << 64) - 1


def splitmix64(x):
    z = (x + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def generated(seed, begin, end):
    """The bytes [begin, end) of the generated content with that seed: byte i is byte i % 8 of splitmix64(seed + i // 8)."""
    if end <= begin:
        return b""
    first, last = begin // 8, (end + 7) // 8
    if numpy is None:
        words = b"".join(splitmix64((seed + i) & _MASK).to_bytes(8, "little") for i in range(first, last))
    else:
        with numpy.errstate(over="ignore"):
            z = numpy.arange(last - first, dtype=numpy.uint64)
            z += numpy.uint64((seed + first + 0x9E3779B97F4A7C15) & _MASK)
            z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
            words = (z ^ (z >> numpy.uint64(31))).astype("<u8").tobytes()
    return words[begin - first * 8 : end - first * 8]


def program():
    """The built server: $SHARDFS_TESTSTORE, beside $SHARDFS, or in build/."""
    if "SHARDFS_TESTSTORE" in os.environ:
        return os.environ["SHARDFS_TESTSTORE"]
    build = pathlib.Path(__file__).resolve().parents[3] / "build"
    if "SHARDFS" in os.environ:
        build = pathlib.Path(os.environ["SHARDFS"]).resolve().parent
    return str(build / "tools" / "teststore" / "teststore")


class KeyStats:
    def __init__(self, found):
        self.requests = found.get("requests", {})
        self.gets = self.requests.get("get", 0)
        self.heads = self.requests.get("head", 0)
        self.body_bytes = found.get("body_bytes", 0)
        self.max_concurrent = found.get("max_concurrent", 0)
        self.ranges = [tuple(r) for r in found.get("ranges", [])]  # of the GETs, half-open, in order


class Stats:
    def __init__(self, raw, bucket):
        self.raw = raw
        self.requests = raw["requests"]  # by kind
        self.gets = self.requests["get"]
        self.heads = self.requests["head"]
        self.lists = self.requests["list"]
        self.body_bytes = raw["body_bytes"]  # of objects
        self.statuses = {int(status): n for status, n in raw["statuses"].items()}
        self.connections_accepted = raw["connections_accepted"]
        self.connections_open = raw["connections_open"]
        self.max_concurrent_requests = raw["max_concurrent_requests"]
        self._bucket = bucket
        self.keys = {(k["bucket"], _text(k["key_base64"])): KeyStats(k) for k in raw["keys"]}

    def key(self, key, bucket=None):
        """All zero for a key that was never asked for."""
        return self.keys.get((bucket or self._bucket, _str(key)), KeyStats({}))


class TestStore:
    __test__ = False  # for pytest

    def __init__(self, bucket="bucket", *, access_key="TESTSTOREKEY", secret_key="teststore-secret",
                 region="us-east-1", tls=False, no_auth=False, first_byte_ms=0, list_ms=0, connection_mbps=0,
                 max_keys=1000, connections=512, root=None, port=0):
        self.bucket = bucket
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region
        self.tls = tls
        self.port = 0
        self.process = None
        self._options = {"--port": port, "--first-byte-ms": first_byte_ms, "--list-ms": list_ms,
                         "--connection-mbps": connection_mbps, "--max-keys": max_keys, "--connections": connections,
                         "--access-key": access_key, "--secret-key": secret_key, "--region": region}
        if root is not None:
            self._options["--root"] = root
        self._flags = ["--no-auth"] * no_auth + ["--tls"] * tls
        self._folder = None

    # Life

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Returns when it answers; after stop() it starts again empty, on another port."""
        self._folder = tempfile.TemporaryDirectory(prefix="teststore-")
        port_file = pathlib.Path(self._folder.name) / "port"
        command = [program(), "--die-with-parent", "--port-file", str(port_file), *self._flags]
        if self.tls:
            command += ["--cert-file", self.certificate]
        for option, value in self._options.items():
            command += [option, str(value)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.process.stdout.readline()  # its endpoint, written after the port file
        if not port_file.exists():
            status = self.process.wait()
            self.stop()
            raise RuntimeError(f"teststore did not start: exit status {status}")
        self.port = int(port_file.read_text())
        self.make_bucket(self.bucket)
        return self

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()
            self.process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def kill(self):
        """As if the machine had died: no connection is closed in good order."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def pause(self):
        """The server's machine hangs: connections open, nothing answered, until resume()."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    # Where it is

    @property
    def endpoint(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def certificate(self):
        """A file for the clients' CA bundle."""
        return str(pathlib.Path(self._folder.name) / "certificate.pem")

    def url(self, prefix="", bucket=None):
        return f"s3://{bucket or self.bucket}/{prefix}"

    def env(self):
        """The AWS_* variables that a client needs."""
        out = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ENDPOINT_URL_S3": self.endpoint, "AWS_REGION": self.region,
               "AWS_DEFAULT_REGION": self.region, "AWS_ACCESS_KEY_ID": self.access_key,
               "AWS_SECRET_ACCESS_KEY": self.secret_key, "AWS_EC2_METADATA_DISABLED": "true"}
        if self.tls:
            out["AWS_CA_BUNDLE"] = self.certificate
        return out

    # Objects; each put returns the ETag

    def make_bucket(self, bucket):
        self._post("make_bucket", {"bucket": bucket})

    def put(self, key, data, *, bucket=None, **attributes):
        """attributes: content_type, content_encoding, storage_class, restore, etag, last_modified (Unix seconds)."""
        data = data.encode() if isinstance(data, str) else bytes(data)
        return self._put(key, bucket, {"bytes_base64": base64.b64encode(data).decode()}, attributes)

    def put_generated(self, key, size, seed=0, *, bucket=None, **attributes):
        return self._put(key, bucket, {"size": size, "seed": seed}, attributes)

    def put_file(self, key, path, *, bucket=None, **attributes):
        return self._put(key, bucket, {"file": str(path)}, attributes)

    def put_many(self, objects, *, bucket=None):
        """objects: a mapping from key to bytes or to (size, seed) of generated content. Quick for thousands."""
        items = []
        for key, value in objects.items():
            what = ({"size": value[0], "seed": value[1]} if isinstance(value, tuple)
                    else {"bytes_base64": base64.b64encode(value).decode()})
            items.append({"bucket": bucket or self.bucket, "key_base64": _base64(key), **what})
        self._post("put", {"objects": items})

    def remove(self, key, *, bucket=None):
        return self._post("remove", {"bucket": bucket or self.bucket, "key_base64": _base64(key)})["removed"]

    # Counts

    def stats(self):
        return Stats(self._get("stats"), self.bucket)

    def log(self):
        """All requests since the reset, in order: dicts with kind, method, bucket, key (a listing's prefix), range,
        asked (half-open) and status (0: not answered)."""
        return [{**r, "key": _text(r["key_base64"])} for r in self._get("log")]

    def reset(self):
        """Counts back to zero; objects, faults and holds stay."""
        self._post("reset")

    # Faults, latency, credentials, holds

    def fault(self, action, match=None, **options):
        """options: at_byte, status, code, retry_after, delay_ms, bytes_per_s, headers, times (-1: for ever; 1 when not
        given), skip, probability, seed, concurrent_above. match: kind (get, head, list, put, delete, other), method,
        bucket, key (glob), range_begin_at_least, access_key, header. Returns an id for fired()."""
        return self._post("fault", {"action": action, "match": _match(match), **options})["id"]

    def fired(self, fault):
        return self._get("fired").get(str(fault), 0)

    def clear_faults(self):
        self._post("clear_faults")

    def shape(self, **values):
        """first_byte_ms, list_ms, connection_mbps (10^6 bytes a second; 0: no limit)."""
        self._post("shape", values)

    def credentials(self, access_key, secret_key="", session_token=""):
        """Accepts that pair too; without a secret the key is refused from now on."""
        self._post("credentials", {"access_key": access_key, "secret_key": secret_key, "session_token": session_token})

    def hold(self, match=None, at_byte=-1):
        """Keeps matching requests unanswered (at_byte N: after N body bytes) until release()."""
        return self._post("hold", {"match": _match(match), "at_byte": at_byte})["id"]

    def release(self, hold=0):
        """0: all holds. What was held is answered; later requests are no longer held."""
        self._post("release", {"id": hold})

    def waiting(self):
        return self._get("waiting")["waiting"]

    def await_waiting(self, count, patience_ms=30000):
        """Blocks until exactly so many requests are held; fails when that does not come about."""
        answer = self._get(f"waiting?count={count}&patience_ms={patience_ms}")
        assert answer["reached"], f"{answer['waiting']} requests are held, not {count}"

    # Wire

    def _put(self, key, bucket, what, attributes):
        request = {"bucket": bucket or self.bucket, "key_base64": _base64(key), **what, **attributes}
        return self._post("put", request)["etag"]

    def _get(self, path):
        return self._control("GET", path, None)

    def _post(self, path, argument=None):
        return self._control("POST", path, json.dumps(argument or {}).encode())

    def _control(self, method, path, body):
        connection = self.connect()
        try:
            connection.request(method, "/_teststore/" + path, body)
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != 200:
            raise ValueError(f"{path}: {answer['error']}")
        return answer

    def connect(self):
        """An http.client connection to the server."""
        if not self.tls:
            return http.client.HTTPConnection("127.0.0.1", self.port)
        import ssl
        return http.client.HTTPSConnection("127.0.0.1", self.port,
                                           context=ssl.create_default_context(cafile=self.certificate))

    def path(self, key, bucket=None):
        """The request path of an object, for raw requests."""
        return "/" + urllib.parse.quote(bucket or self.bucket) + "/" + urllib.parse.quote(_bytes(key))


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def _str(text):
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


def _base64(text):
    return base64.b64encode(_bytes(text)).decode()


def _text(encoded):
    return _str(base64.b64decode(encoded))


def _match(match):
    out = dict(match or {})
    if "key" in out:
        out["key_base64"] = _base64(out.pop("key"))
    return out
