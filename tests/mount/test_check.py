"""shardfs check: what works, what does not, and what to do, against stores and machines with each of the faults."""

import json
import os

from lib.content import MIB
from lib.mounting import environment, mounts_below, shardfs
from lib.teststore import TestStore
from lib.web import Web

STORE_ROWS = ["endpoint", "dns", "tls", "clock", "region", "credentials", "list", "read", "ranged read", "If-Match",
              "throughput 1", "throughput 8", "throughput 32"]
MACHINE_ROWS = ["fuse", "mount", "passthrough", "cache space", "cache disk"]


def check(store, folder, *options, env=None, source=None):
    """The exit code and the rows by name."""
    done = shardfs("check", source or store.url("set/"), "--json", "--endpoint-url", store.endpoint, "--path-style",
                   "--cache-dir", f"{folder}/cache", "--cache-size", "512M", "--cache-min-free", "0", *options,
                   env=env or environment(store))
    assert done.stderr == "", done
    report = json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0)
    return done.returncode, {row["name"]: row for row in report["checks"]}


def verdicts(rows):
    return {name: row["verdict"] for name, row in rows.items() if row["verdict"] != "ok"}


def test_all_works(store, folder):
    store.put_generated("set/shard-0.tar", 20 * MIB, 1)
    code, rows = check(store, folder, "--region", store.region)
    assert list(rows) == STORE_ROWS + MACHINE_ROWS
    assert code == 0 and {name for name in verdicts(rows)} <= {"passthrough", "cache disk"}, rows
    assert "bucket in the path" in rows["endpoint"]["found"]
    assert rows["credentials"]["found"] == "environment; no end known"
    assert rows["If-Match"]["found"] == "understood"
    assert rows["list"]["found"].startswith("1 objects in ")
    assert "MB/s" in rows["throughput 32"]["found"]
    assert store.secret_key not in str(rows)
    assert not [name for name in os.listdir("/tmp") if name.startswith("shardfs-check-")]
    assert not [point for point in mounts_below("/tmp") if "shardfs-check-" in point]


def test_as_text(store, folder):
    store.put("set/a", b"x" * 100)
    done = shardfs("check", store.url("set/"), "--endpoint-url", store.endpoint, "--path-style", "--cache-size", "0",
                   env=environment(store))
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert [line[:12].strip() for line in lines if not line.startswith(" ")][:5] == STORE_ROWS[:5]
    assert any("-> the objects are small" in line for line in lines)


def test_nobody_listens(folder):
    class Nobody:
        endpoint = "http://127.0.0.1:9"

    code, rows = check(Nobody, folder, "--no-sign-request", source="s3://bucket", env=environment())
    assert code == 1 and rows["endpoint"]["verdict"] == "failed" and "check address and port" in rows["endpoint"]["advice"]
    assert rows["list"]["verdict"] == rows["mount"]["verdict"] == "skipped"
    assert rows["fuse"]["verdict"] == "ok"


def test_name_that_leads_nowhere(folder):
    class Nowhere:
        endpoint = "http://store.invalid"

    code, rows = check(Nowhere, folder, "--no-sign-request", source="s3://bucket", env=environment())
    assert code == 1 and rows["dns"]["verdict"] == "failed" and "resolv.conf" in rows["dns"]["advice"]


def test_certificate_that_is_not_trusted(folder):
    with TestStore(tls=True) as store:
        store.put("set/a", b"x")
        env = environment(store)
        del env["AWS_CA_BUNDLE"]
        code, rows = check(store, folder, env=env)
        assert code == 1 and rows["tls"]["verdict"] == "failed" and "--ca-bundle" in rows["tls"]["advice"]
        code, rows = check(store, folder)
        assert code == 0 and rows["tls"]["found"].startswith("trusted, certificate until ")


def test_wrong_keys_and_no_keys(store, folder):
    store.put("set/a", b"x")
    code, rows = check(store, folder, env=environment(store, AWS_SECRET_ACCESS_KEY="wrong"))
    assert code == 1 and "SignatureDoesNotMatch" in rows["list"]["found"] and "docs/credentials.md" in rows["list"]["advice"]
    code, rows = check(store, folder, env=environment())
    assert code == 1 and rows["credentials"]["verdict"] == "failed" and rows["list"]["verdict"] == "skipped"


def test_keys_that_end(store, folder):
    store.put("set/a", b"x")
    config = folder / "config"
    config.write_text("[default]\ncredential_process = echo '" + json.dumps(
        {"Version": 1, "AccessKeyId": store.access_key, "SecretAccessKey": store.secret_key,
         "Expiration": "2126-01-02T03:04:05Z"}) + "'\n")
    _, rows = check(store, folder, env=environment(AWS_CONFIG_FILE=str(config)))
    assert rows["credentials"]["found"].startswith("profile 'default'; until 2126-01-02 03:04:05 UTC, ")


def test_another_region(folder):
    """The store names another region than the one that was given."""
    with Web(lambda *_: (301, "", {"x-amz-bucket-region": "ap-south-1"})) as web:
        class Elsewhere:
            endpoint = web.url

        code, rows = check(Elsewhere, folder, "--no-sign-request", "--region", "eu-west-1", source="s3://bucket",
                           env=environment())
    assert code == 1 and rows["region"] == {"name": "region", "verdict": "failed", "advice": "--region ap-south-1",
                                            "found": "the bucket is in ap-south-1, not in eu-west-1"}


def test_clock_that_is_off(folder):
    with Web(lambda *_: (200, "", {"Date": "Wed, 01 Jan 2025 00:00:00 GMT"})) as web:
        class Behind:
            endpoint = web.url

        _, rows = check(Behind, folder, "--no-sign-request", source="s3://bucket", env=environment())
    assert rows["clock"]["verdict"] == "warning" and "ahead of" in rows["clock"]["found"]
    assert "chrony" in rows["clock"]["advice"]


def test_if_match_that_is_refused(store, folder):
    store.put("set/a", b"x" * 100, etag='"one"')
    store.fault("status", {"header": "If-Match"}, status=501, code="NotImplemented", times=-1)
    _, rows = check(store, folder)
    assert "refused for an unchanged object" in rows["If-Match"]["found"]


def test_ranges_that_are_ignored(store, folder):
    store.put_generated("set/a", 3 * MIB, 1)
    store.fault("full_200", {"kind": "get"}, times=-1)
    code, rows = check(store, folder)
    assert code == 1 and rows["read"]["verdict"] == "failed"


def test_prefix_without_objects(store, folder):
    code, rows = check(store, folder)
    assert code == 0 and rows["list"]["verdict"] == "warning" and rows["list"]["advice"] == "check the prefix"


def test_cache_folder_that_can_not_be_written(store, folder):
    store.put("set/a", b"x")
    code, rows = check(store, "/proc/nowhere")
    assert code == 1 and rows["cache disk"]["verdict"] == "failed" and "--cache-dir" in rows["cache disk"]["advice"]
