"""`shardfs warm`: whole files fetched before a job reads them; what is there, what goes on, what does not fit."""

import json
import os
import pty
import subprocess

import pytest

from lib.content import MIB, DataSet, read_range
from lib.mounting import program, shardfs, used_bytes
from lib.waiting import until

SHARDS = {f"{i:03}.tar": 9 * MIB + i for i in range(5)}


def warm(mounted, *arguments, code=0):
    done = shardfs("warm", *arguments, "--json", env=mounted.env)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}{done.stdout}"
    return json.loads(done.stdout)


@pytest.fixture
def data(store):
    sizes = {**SHARDS, **{f"images/{i}.jpg": 10_000 + i for i in range(50)}, "images/empty": 0}
    return DataSet("train", sizes).put(store)


def test_what_was_warmed_is_read_without_a_request(data, store, mount, passthrough):
    mounted = mount(data.prefix, passthrough=passthrough)
    done = warm(mounted, mounted.path)
    assert (done["files"], done["complete_files"], done["bytes"]) == (56, 56, data.total_bytes)
    assert done["fetched_bytes"] == done["resident_bytes"] == data.total_bytes
    assert done["did_not_fit"] == done["failed"] == []
    stats = mounted.stats()
    assert stats["fetched_bytes"]["warm"] >= 0.9 * data.total_bytes
    assert store.stats().body_bytes == data.total_bytes  # once, and nothing else
    store.reset()
    data.compare_tree(mounted.path)
    assert store.stats().gets == 0
    # Again: nothing to do.
    again = warm(mounted, mounted.path / "000.tar", mounted.path / "images")
    assert (again["fetched_bytes"], again["complete_files"], again["files"]) == (0, 52, 52)
    assert store.stats().gets == 0


def test_check_fetches_nothing(data, store, mount):
    mounted = mount(data.prefix)
    data.compare_file(mounted.path, "001.tar")
    mounted.await_cached("001.tar")
    os.listdir(mounted.path / "images")  # else names are asked for one by one, each with its first bytes
    until(lambda: mounted.stats()["gauges"]["fetch_parts"] == 0, "what is fetched ahead has come")
    store.reset()
    done = warm(mounted, mounted.path, "--check", code=1)
    assert store.stats().gets == 0
    assert done["resident_bytes"] == sum(mounted.cached_bytes(name) for name in data.objects)
    assert done["fetched_bytes"] == 0
    assert done["bytes"] == data.total_bytes and 2 <= done["complete_files"] < 56
    assert len(done["missing"]) == 56 - done["complete_files"]
    warm(mounted, mounted.path)
    assert warm(mounted, mounted.path, "--check")["missing"] == []
    text = shardfs("warm", mounted.path, "--check", env=mounted.env)
    assert (text.returncode, text.stdout.splitlines()[0][:38]) == (0, "56 of 56 files are in the cache, 45.5 "[:38])


def test_it_goes_on_where_it_stopped(data, store, mount):
    mounted = mount(data.prefix, passthrough="off")
    os.listdir(mounted.path)
    hold = store.hold({"key": data.prefix + "004.tar"}, at_byte=0)
    child = subprocess.Popen([program(), "warm", *[str(mounted.path / name) for name in SHARDS]], env=mounted.env,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for name in list(SHARDS)[:4]:
            mounted.await_cached(name)
        until(store.waiting, "the last one is asked for")
    finally:
        child.kill()
        child.wait()
    until(lambda: mounted.stats()["gauges"]["fetch_parts"] == 0, "what nobody asks for is cancelled")
    store.release(hold)
    store.reset()
    done = warm(mounted, mounted.path)
    assert done["complete_files"] == 56
    assert {request["key"] for request in store.log() if request["kind"] == "get"}.isdisjoint(
        {data.prefix + name for name in list(SHARDS)[:4]})
    data.compare_tree(mounted.path)


@pytest.mark.parametrize("eviction", ["lru", "next-use"])
def test_what_does_not_fit_is_said_and_not_fetched(data, store, mount, eviction):
    mounted = mount(data.prefix, cache_size="30M", cache_eviction=eviction)
    done = warm(mounted, *[mounted.path / name for name in SHARDS], code=1)
    assert done["complete_files"] == 2 and [f["file"] for f in done["did_not_fit"]] == ["002.tar", "003.tar", "004.tar"]
    assert done["failed"] == []
    assert store.stats().body_bytes == SHARDS["000.tar"] + SHARDS["001.tar"]
    assert used_bytes(mounted.cache) <= 30 * MIB
    for name in list(SHARDS)[:2]:
        assert mounted.cached_bytes(name) == SHARDS[name]
    assert warm(mounted, mounted.path / "000.tar", "--check")["complete_files"] == 1
    done = shardfs("warm", *[mounted.path / name for name in SHARDS], env=mounted.env)
    assert done.returncode == 1 and "3 files (27 MiB) did not fit" in done.stderr


def test_a_warming_gives_way_to_what_is_pinned(data, store, mount):
    mounted = mount(data.prefix, cache_size="30M")
    assert shardfs("cache", "pin", mounted.path / "003.tar", env=mounted.env).returncode == 0
    done = warm(mounted, *[mounted.path / name for name in SHARDS], code=1)
    assert {f["file"] for f in done["did_not_fit"]} == {"001.tar", "002.tar", "004.tar"}
    assert mounted.cached_bytes("003.tar") == SHARDS["003.tar"]


def test_an_error_of_the_store_is_told_for_its_file(data, store, mount):
    store.fault("status", {"key": data.prefix + "002.tar", "kind": "get"}, status=403, code="AccessDenied", times=-1)
    mounted = mount(data.prefix)
    done = warm(mounted, *[mounted.path / name for name in SHARDS], code=1)
    assert [f["file"] for f in done["failed"]] == ["002.tar"]
    assert done["complete_files"] == 4
    missing = shardfs("warm", mounted.path / "none", env=mounted.env)
    assert missing.returncode == 1 and "none" in missing.stderr
    mounted.remount(cache_size="0")
    refused = shardfs("warm", mounted.path, env=mounted.env)
    assert refused.returncode != 0 and "no cache" in refused.stderr


def test_a_person_sees_how_far_it_is(data, store, mount):
    mounted = mount(data.prefix)
    master, slave = pty.openpty()
    try:
        child = subprocess.Popen([program(), "warm", str(mounted.path)], env=mounted.env, stderr=slave,
                                 stdout=subprocess.PIPE, text=True)
        out, _ = child.communicate(timeout=60)
        os.close(slave)
        slave = -1
        shown = os.read(master, 65536).decode()
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)
    assert child.returncode == 0
    assert "MB/s" in shown and "[" in shown and "%" in shown and " left" in shown
    assert "56 of 56 files" in out and "MB/s" in out
    assert read_range(mounted.path / "000.tar", 0, 4096)
