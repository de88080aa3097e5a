"""`shardfs cache`: what is in the folder, pins, evictions and the limit, on a live mount and without one."""

import json
import os

import pytest

from lib.content import MIB, DataSet
from lib.mounting import shardfs, used_bytes
from lib.waiting import until

SHARDS = {f"{i:03}.tar": 9 * MIB + i for i in range(4)}


def cache(mounted, command, *arguments, code=0, mount=True):
    """The answer in JSON; `mount`: by its mountpoint and paths in it, else by the folder alone."""
    where = [] if mount else ["--cache-dir", mounted.cache]
    done = shardfs("cache", command, *arguments, *where, "--json", env=mounted.env)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}{done.stdout}"
    return json.loads(done.stdout) if done.stdout else done.stderr


def results(answer):
    return [entry["result"] for entry in answer["entries"]]


def by_key(answer):
    return {entry["key"]: entry for entry in answer["entries"]}


@pytest.fixture
def data(store):
    return DataSet("train", SHARDS).put(store)


@pytest.fixture
def warm(data, mount):
    mounted = mount(data.prefix)
    for name in data.objects:
        data.compare_file(mounted.path, name)
        mounted.await_cached(name)
    return mounted


def files_of(mounted):
    return [path for path in mounted.cache.rglob("*.data")]


@pytest.mark.parametrize("mounted_now", [True, False])
def test_list_has_all_files(data, warm, mounted_now):
    if not mounted_now:
        warm.umount()
    listed = cache(warm, "ls", *([warm.path] if mounted_now else []), mount=mounted_now)
    assert listed["files"] == len(SHARDS)
    found = by_key(listed)
    assert set(found) == {data.prefix + name for name in SHARDS}
    for name, size in SHARDS.items():
        entry = found[data.prefix + name]
        assert (entry["size_bytes"], entry["resident_bytes"], entry["bucket"]) == (size, size, "bucket")
        assert entry["complete"] and entry["verified"] and not entry["pinned"]
    assert listed["cost_bytes"] <= used_bytes(warm.cache) + len(SHARDS) * 32768
    text = shardfs("cache", "ls", "--cache-dir", warm.cache, env=warm.env).stdout
    assert all(f"s3://bucket/{data.prefix}{name}" in text for name in SHARDS) and "4 files" in text


def test_stat_of_what_is_cached_and_what_is_not(data, mount):
    mounted = mount(data.prefix, passthrough="off")
    data.compare_file(mounted.path, "000.tar")
    mounted.await_cached("000.tar")
    entries = cache(mounted, "stat", mounted.path / "000.tar", mounted.path / "003.tar")["entries"]
    assert [entry["cached"] for entry in entries] == [True, False]
    assert entries[0]["resident_bytes"] == SHARDS["000.tar"]
    assert (entries[1]["resident_bytes"], entries[1]["size_bytes"]) == (0, SHARDS["003.tar"])
    whole = cache(mounted, "stat", mounted.path)["entries"]  # a folder: all files below
    assert len(whole) == len(SHARDS)
    named = cache(mounted, "stat", f"s3://bucket/{data.prefix}000.tar", entries[0]["name"])["entries"]
    assert [entry["key"] for entry in named] == [data.prefix + "000.tar"] * 2
    done = shardfs("cache", "stat", mounted.path / "none.tar", env=mounted.env)
    assert done.returncode == 1 and "none.tar" in done.stderr
    assert "no shardfs mount" in shardfs("cache", "stat", "/etc/passwd", env=mounted.env).stderr


def test_a_pin_survives_a_remount_and_a_full_cache(data, store, mount):
    others = DataSet("others", {f"{i}.tar": 9 * MIB for i in range(6)}).put(store)
    mounted = mount("", cache_size="40M", cache_eviction="lru")
    name = data.prefix + "000.tar"
    pinned = cache(mounted, "pin", mounted.path / name)
    assert results(pinned) == ["pinned"] and pinned["entries"][0]["resident_bytes"] == 0
    mounted.remount()

    def read_others():
        for other in others.objects:
            others.compare_file(mounted.path / "others", other)

    data.compare_file(mounted.path / "train", "000.tar")
    mounted.await_cached(name)
    for _ in range(2):
        read_others()
    assert mounted.stats()["evictions"] > 0
    assert mounted.cached_bytes(name) == SHARDS["000.tar"]
    assert used_bytes(mounted.cache) <= 40 * MIB
    assert results(cache(mounted, "evict", mounted.path / name, code=1)) == ["pinned"]
    too_large = cache(mounted, "pin", mounted.path / "others", code=1)
    assert results(too_large).count("failed") >= 2
    assert "limit" in [e for e in too_large["entries"] if e["result"] == "failed"][0]["error"]["message"]
    assert results(cache(mounted, "unpin", mounted.path)).count("unpinned") >= 2
    for _ in range(2):
        read_others()
    until(lambda: mounted.cached_bytes(name) < SHARDS["000.tar"] or read_others(), "what was unpinned leaves")


def test_evicted_is_fetched_again_and_what_is_open_stays(data, warm, store):
    warm.remount(passthrough="auto")
    held = os.open(warm.path / "000.tar", os.O_RDONLY)
    try:
        os.pread(held, 1, 0)
        answer = cache(warm, "evict", warm.path, code=1)
        assert sorted(results(answer)) == ["evicted"] * 3 + ["in_use"]
        assert by_key(answer)[data.prefix + "000.tar"]["result"] == "in_use"
        assert len(files_of(warm)) == 1
    finally:
        os.close(held)
    store.reset()
    data.compare_tree(warm.path)
    assert data.total_bytes - SHARDS["000.tar"] <= store.stats().body_bytes <= data.total_bytes


def test_clear_leaves_pins_and_open_files(data, warm, mount):
    cache(warm, "pin", warm.path / "001.tar")
    other = mount(data.prefix)  # another process with the same folder
    held = os.open(other.path / "002.tar", os.O_RDONLY)
    try:
        os.pread(held, 1, 0)
        cleared = cache(warm, "clear", warm.path)
        assert (cleared["evicted"], cleared["pinned"], cleared["in_use"]) == (2, 1, 1)
        assert len(files_of(warm)) == 2
    finally:
        os.close(held)
    other.umount()
    warm.umount()
    cleared = cache(warm, "clear", "--pinned", mount=False)
    assert (cleared["evicted"], cleared["pinned"], cleared["in_use"]) == (2, 0, 0)
    assert files_of(warm) == []
    warm.start()
    data.compare_tree(warm.path)


def test_the_limit_is_lowered_and_raised_while_mounted(data, warm, mount):
    other = mount(data.prefix)
    lowered = cache(warm, "limit", warm.path, "20M")
    assert lowered["of_folder"] and lowered["limit_bytes"] == 20 * MIB >= lowered["used_bytes"]
    assert used_bytes(warm.cache) <= 20 * MIB
    assert other.stats()["cache_limit_bytes"] == 20 * MIB
    for mounted in (warm, other):
        data.compare_tree(mounted.path)
        assert used_bytes(warm.cache) <= 20 * MIB
    raised = cache(warm, "limit", "--cache-dir", warm.cache, "100M")  # from outside, for both mounts
    assert raised["limit_bytes"] == 100 * MIB
    other.remount()  # what was streamed past the full cache is in the kernel's page cache
    assert other.stats()["cache_limit_bytes"] == 100 * MIB
    for name in SHARDS:
        data.compare_file(other.path, name)
        other.await_cached(name)
    cache(warm, "pin", warm.path)
    refused = shardfs("cache", "limit", warm.path, "20M", env=warm.env)
    assert refused.returncode == 2 and "pinned" in refused.stderr
    assert shardfs("cache", "limit", warm.path, "1M", env=warm.env).returncode == 2
    other.umount()
    warm.remount()
    assert warm.stats()["cache_limit_bytes"] == 1 << 30


def test_without_a_cache_or_a_mount_it_says_so(data, mount, tmp_path):
    mounted = mount(data.prefix, cache_size="0", cache_dir=None)
    done = shardfs("cache", "ls", mounted.path, env=mounted.env)
    assert done.returncode != 0 and "no cache" in done.stderr
    (tmp_path / "other").mkdir()
    done = shardfs("cache", "ls", "--cache-dir", tmp_path / "other", env=mounted.env)
    assert done.returncode == 1 and "not a cache folder" in done.stderr
    assert list((tmp_path / "other").iterdir()) == []
    mounted.umount()
    done = shardfs("cache", "clear", env=mounted.env)
    assert done.returncode == 1 and "no mount" in done.stderr


@pytest.mark.parametrize("mounted_now", [True, False])
def test_verify_finds_a_flipped_byte_and_drops_one_block(data, warm, store, mounted_now, passthrough):
    warm.remount(passthrough=passthrough)
    if not mounted_now:
        warm.umount()
    where = [warm.path] if mounted_now else []
    good = cache(warm, "verify", *where, mount=mounted_now)
    assert (good["files"], good["bad"], good["bytes"]) == (len(SHARDS), [], data.total_bytes)
    file = next(path for path in files_of(warm) if path.stat().st_size == SHARDS["002.tar"])
    with open(file, "r+b") as opened:
        opened.seek(5 * MIB + 77)
        byte = opened.read(1)
        opened.seek(5 * MIB + 77)
        opened.write(bytes([byte[0] ^ 4]))
    found = cache(warm, "verify", *where, mount=mounted_now, code=1)
    assert [(bad["key"], bad["block"]) for bad in found["bad"]] == [(data.prefix + "002.tar", 5)]
    if mounted_now:
        assert warm.stats()["bad_blocks"] == 1
        assert warm.stats()["checked_bytes"] == 2 * data.total_bytes
    else:
        warm.start()
    store.reset()
    data.compare_tree(warm.path)
    assert store.stats().body_bytes == MIB  # the block alone
    warm.await_cached("002.tar")
    assert cache(warm, "verify", warm.path)["bad"] == []


def test_the_scrub_finds_it_by_itself(data, warm):
    warm.umount()
    file = next(path for path in files_of(warm) if path.stat().st_size == SHARDS["001.tar"])
    with open(file, "r+b") as opened:
        opened.seek(77)
        opened.write(b"\0" * 8)
    warm.options["--scrub"] = True
    warm.start()
    until(lambda: warm.stats()["bad_blocks"] == 1, "the scrub comes to it")
    data.compare_tree(warm.path)
