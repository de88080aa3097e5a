"""How a store is reached: over TLS with the right and the wrong trust, and with the bucket in the host name."""

import subprocess

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import environment, mounts_below, program
from lib.teststore import TestStore


def mount_command(store, folder, *options, trust=True, source=None):
    env = {name: value for name, value in environment(store).items() if trust or name != "AWS_CA_BUNDLE"}
    return subprocess.run([program(), "mount", source or store.url(), str(folder / "point"), "--region", store.region, "--cache-dir",
                           str(folder / "cache"), "--cache-size", "1G", *options],
                          env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def folder(run_folder, tmp_path_factory):
    made = run_folder / tmp_path_factory.mktemp("reach").name
    (made / "point").mkdir(parents=True)
    yield made
    subprocess.run([program(), "umount", str(made / "point")], capture_output=True, timeout=60)


def test_tls_with_the_stores_authority(folder):
    with TestStore(tls=True) as store:
        store.put_generated("a", 3 * MIB + 1, 5)
        done = mount_command(store, folder, "--endpoint-url", store.endpoint, "--ca-bundle", store.certificate)
        assert done.returncode == 0, done
        compare(read_all(folder / "point/a"), 3 * MIB + 1, 5)
        assert subprocess.run([program(), "umount", str(folder / "point")]).returncode == 0


def test_tls_of_an_unknown_authority_is_refused(folder):
    with TestStore(tls=True) as store:
        store.put("a", b"secret")
        done = mount_command(store, folder, "--endpoint-url", store.endpoint, trust=False)
        assert done.returncode == 1
        assert "certificate" in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not mounts_below(folder)
        assert sum(store.stats().requests.values()) == 0


def test_bucket_in_the_host_name(folder):
    with TestStore(bucket="bucket.s3") as store:  # what the store makes of the host bucket.s3.localhost
        store.put_generated("dir/a", MIB + 1, 6)
        endpoint = store.endpoint.replace("127.0.0.1", "s3.localhost")
        done = mount_command(store, folder, "--endpoint-url", endpoint, source="s3://bucket/")
        assert done.returncode == 0, done
        compare(read_all(folder / "point/dir/a"), MIB + 1, 6)
        assert subprocess.run([program(), "umount", str(folder / "point")]).returncode == 0
