"""The same data sets, read from servers that others wrote: what they make of signatures, ranges, listings and versions."""

import os
import random

import pytest

from lib.content import MIB, DataSet, compare, nested_set, pread_all, read_all, read_range
from lib.mounting import mounts_below, shardfs
from lib.waiting import Together, until

SIZES = {f"{size}.bin": size for size in (0, 1, 4095, 4096, MIB + 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB + 13)}
# Those that a server whose keys are files can hold.
NAMES = {name: 1000 + i for i, name in enumerate(
    ["with space", "with%20space", "plus+plus", "+lead", "at@x", "hash#x", "q?x", "a&b=c", "100%", "unicode-ü", "日本語",
     "quote'", "semi;colon", "~tilde", "star*", "[brackets]", "dir with space/ü/+/x y", "(round)", "a,b", "!$x"])}

SETS = {"sizes": lambda: DataSet("sizes", SIZES), "names": lambda: DataSet("odd names ü+", NAMES), "nested": nested_set}


@pytest.mark.parametrize("name", SETS)
def test_cold_warm_and_remounted(store, mount, passthrough, name):
    data = SETS[name]().put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    data.compare_tree(mounted.path)
    data.compare_tree(mounted.path)
    stats = mounted.stats()
    assert data.total_bytes <= stats["fetched_bytes"]["total"] <= 1.1 * data.total_bytes
    assert stats["errors"] == {} or not any(stats["errors"].values())
    for key, (size, _) in data.objects.items():
        if size:
            mounted.await_cached(key)
    mounted.remount()
    data.compare_tree(mounted.path)
    assert mounted.stats()["requests"]["get"] == 0


def test_ranges(store, mount):
    size, seed = 30 * MIB + 7, 3
    store.put_generated("a", size, seed)
    mounted = mount(cache_size="0")
    draw = random.Random(1)
    for _ in range(30):
        begin = draw.randrange(size)
        end = min(size, begin + draw.choice([1, 4096, 300_000, 9 * MIB]))
        compare(read_range(mounted.path / "a", begin, end), size, seed, begin, end)
    Together(*[lambda i=i: compare(read_range(mounted.path / "a", i * MIB, (i + 3) * MIB), size, seed, i * MIB,
                                   (i + 3) * MIB) for i in range(0, 24, 3)]).join()


def test_object_that_was_put_in_parts(store, mount):
    """Its ETag is no checksum, and is to be taken as it is."""
    size, seed = 12 * MIB + 5, 4
    etag = store.put_in_parts("a", size, seed, 5 * MIB)
    assert "-" in etag
    mounted = mount()
    compare(read_all(mounted.path / "a"), size, seed)
    assert os.getxattr(mounted.path / "a", "user.shardfs.etag").decode().strip('"') == etag.strip('"')


def test_overwritten(store, mount, passthrough):
    size = 9 * MIB + 1
    store.put_generated("dir/a", size, 1)
    mounted = mount(passthrough=passthrough, metadata_ttl="0s")
    path = mounted.path / "dir/a"
    compare(read_all(path), size, 1)
    mounted.await_cached("dir/a")
    old = os.open(path, os.O_RDONLY)
    for version, new_size in ((2, size), (3, size + 4097), (4, MIB)):
        store.put_generated("dir/a", new_size, version)
        compare(read_all(path), new_size, version)
        assert os.stat(path).st_size == new_size
    compare(pread_all(old, 0, size), size, 1)
    os.close(old)


def test_comes_and_goes(store, mount):
    store.put("dir/a", b"1")
    store.put("dir/b", b"2")
    mounted = mount(metadata_ttl="0s", negative_ttl="0s")
    assert sorted(os.listdir(mounted.path / "dir")) == ["a", "b"]
    with pytest.raises(FileNotFoundError):
        os.stat(mounted.path / "dir/c")
    store.put("dir/c", b"3")
    assert (mounted.path / "dir/c").read_bytes() == b"3"
    store.remove("dir/a")
    until(lambda: sorted(os.listdir(mounted.path / "dir")) == ["b", "c"], "the listing is new")
    with pytest.raises(FileNotFoundError):
        os.open(mounted.path / "dir/a", os.O_RDONLY)


def test_listing_of_several_pages(store, mount):
    store.put_many({"dir/sub/x": (1, 1), **{f"dir/{n:05}": (0, 1) for n in range(1203)}})
    mounted = mount()
    assert sorted(os.listdir(mounted.path / "dir")) == [f"{n:05}" for n in range(1203)] + ["sub"]
    stats = mounted.stats()
    assert stats["requests"]["head"] == 0 and stats["requests"]["list"] <= 6


def test_directory_marker(store, mount):
    store.put("train/", b"")
    store.put("train/a", b"a")
    store.put("empty/", b"")
    mounted = mount()
    assert sorted(os.listdir(mounted.path)) == ["empty", "train"]
    assert os.listdir(mounted.path / "train") == ["a"] and os.listdir(mounted.path / "empty") == []


@pytest.mark.parametrize("change", [{"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "UNKNOWN"}], ids=str)
def test_wrong_keys_are_refused(store, mount, change):
    """So the reads of the other tests were signed as the server wants it."""
    store.put("a", b"1")
    mounted = mount(start=False, env=change)
    done = shardfs(*mounted.arguments(), env=mounted.env)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "keys" in done.stderr
    assert not mounts_below(mounted.path)


def test_unknown_bucket(store, mount):
    mounted = mount(start=False)
    mounted.source = "s3://no-such-bucket"
    done = shardfs(*mounted.arguments(), env=mounted.env)
    assert done.returncode == 1 and "no-such-bucket" in done.stderr
    assert not mounts_below(mounted.path)
