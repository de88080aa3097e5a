"""Directories: what a listing costs, that names come and go in time, and odd keys that trouble no sibling."""

import ctypes
import os
import random

import pytest

from lib.content import MIB, compare, read_all
from lib.teststore import TestStore
from lib.waiting import Together, until


def test_long_listing_costs_pages_only(store, mount):
    count = 20_000
    store.put_many({f"images/{i:06}.jpg": (i % 1000, i) for i in range(count)})
    mounted = mount()
    store.reset()
    found = {entry.name: entry.stat().st_size for entry in os.scandir(mounted.path / "images")}
    assert found == {f"{i:06}.jpg": i % 1000 for i in range(count)}
    stats = store.stats()
    assert stats.lists <= 28 and stats.heads == 0 and stats.gets == 0, stats.requests
    draw = random.Random(1)
    for i in draw.sample(range(count), 50):
        compare(read_all(mounted.path / f"images/{i:06}.jpg"), i % 1000, i)
    assert store.stats().heads == 0
    before = store.stats().lists
    assert len(os.listdir(mounted.path / "images")) == count
    assert store.stats().lists == before


def test_directory_read_twice_by_one_handle(store, mount):
    """rewinddir and seekdir, with more names than a page or a buffer holds."""
    names = {f"{i:05}" for i in range(2500)}
    store.put_many({f"dir/{name}": b"" for name in names})
    mounted = mount()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = libc.readdir64.restype = ctypes.c_void_p
    for function in (libc.readdir64, libc.rewinddir, libc.telldir, libc.closedir):
        function.argtypes = [ctypes.c_void_p]
    libc.telldir.restype = ctypes.c_long
    libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]

    handle = libc.opendir(os.fsencode(mounted.path / "dir"))
    assert handle

    def entries():
        out = []
        while at := libc.readdir64(handle):
            out.append(os.fsdecode(ctypes.string_at(at + 19)))  # d_name of struct dirent64
        return out

    first = entries()
    assert set(first) == names | {".", ".."} and len(first) == len(set(first))
    libc.rewinddir(handle)
    assert entries() == first
    libc.rewinddir(handle)
    for _ in range(700):
        libc.readdir64(handle)
    place = libc.telldir(handle)
    rest = entries()
    assert rest == first[700:]
    libc.seekdir(handle, place)
    assert entries() == rest
    libc.closedir(handle)


@pytest.mark.parametrize("count", [999, 1000, 1001, 2000, 3001])
def test_page_borders(store, mount, count):
    names = sorted(f"{i:05}" for i in range(count))
    store.put_many({f"dir/{name}": b"x" for name in names})
    store.put_many({f"dir/sub-{i}/a": b"y" for i in range(3)})
    mounted = mount()
    assert sorted(os.listdir(mounted.path / "dir")) == names + ["sub-0", "sub-1", "sub-2"]


def test_missing_name_appears(store, mount):
    mounted = mount(negative_ttl="300ms", metadata_ttl="1h")
    path = mounted.path / "late"
    with pytest.raises(FileNotFoundError):
        os.stat(path)
    store.put_generated("late", MIB, 1)
    until(path.exists, "the name appears when the negative answer is too old", patience_s=10)
    compare(read_all(path), MIB, 1)


def test_missing_name_appears_with_the_default(store, mount):
    mounted = mount()
    path = mounted.path / "dir" / "late"
    assert not path.exists()
    store.put_generated("dir/late", MIB, 1)
    until(path.exists, "the name appears", patience_s=10)
    compare(read_all(path), MIB, 1)


def test_missing_name_is_remembered(store, mount):
    mounted = mount(negative_ttl="1h")
    store.reset()
    for _ in range(20):
        assert not (mounted.path / "missing").exists()
    stats = store.stats()
    assert stats.heads <= 1 and stats.lists <= 1, stats.requests


def test_names_come_and_go_in_a_listing(store, mount):
    store.put_many({"dir/a": b"1", "dir/b": b"2"})
    mounted = mount(metadata_ttl="200ms")
    assert sorted(os.listdir(mounted.path / "dir")) == ["a", "b"]
    store.remove("dir/a")
    store.put("dir/c", b"3")
    until(lambda: sorted(os.listdir(mounted.path / "dir")) == ["b", "c"], "the listing is new", patience_s=10)


def test_directory_markers(store, mount):
    store.put_many({"train/": b"", "train/a.tar": b"a", "empty/": b"", "bytes/": b"not empty", "bytes/x": b"x",
                    "deep/er/": b""})
    mounted = mount()
    assert sorted(os.listdir(mounted.path)) == ["bytes", "deep", "empty", "train"]
    assert os.listdir(mounted.path / "train") == ["a.tar"]
    assert os.listdir(mounted.path / "empty") == []
    assert os.listdir(mounted.path / "bytes") == ["x"]
    assert os.listdir(mounted.path / "deep/er") == []
    for name in ("train", "empty", "bytes", "deep"):
        assert os.path.isdir(mounted.path / name)
    lines = mounted.log.count("\n")
    for _ in range(5):
        os.listdir(mounted.path / "train")
    assert mounted.log.count("warn") == 0 or mounted.log.count("\n") - lines < 5


def test_key_and_prefix_of_one_name(store, mount):
    store.put_many({"dir/foo": b"file", "dir/foo/bar": b"below", "dir/other": b"other"})
    mounted = mount()
    names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in os.scandir(mounted.path / "dir")}
    assert names == {"foo": True, "other": False}
    assert os.path.isdir(mounted.path / "dir/foo")
    assert (mounted.path / "dir/foo/bar").read_bytes() == b"below"
    assert (mounted.path / "dir/other").read_bytes() == b"other"


def test_key_and_prefix_of_one_name_looked_up_first(store, mount):
    store.put_many({"dir/foo": b"file", "dir/foo/bar": b"below"})
    mounted = mount()
    assert (mounted.path / "dir/foo/bar").read_bytes() == b"below"
    assert os.listdir(mounted.path / "dir/foo") == ["bar"]


ODD_KEYS = ["dir//a/x", "/lead", "//", "dir/./x", "dir/../x", "..", "dir/" + "y" * 256, "dir/" + "\u65e5" * 86,
            "dir/nul\0x"]


def test_odd_keys_trouble_no_sibling(store, mount):
    store.put_many({**{key: b"odd" for key in ODD_KEYS}, "dir/ok": b"fine", "top": b"fine", "dir/sub/z": b"fine"})
    mounted = mount()
    for _ in range(2):
        assert sorted(os.listdir(mounted.path)) == ["dir", "top"]
        assert sorted(os.listdir(mounted.path / "dir")) == ["ok", "sub"]
        for name in ("dir/ok", "top", "dir/sub/z"):
            assert (mounted.path / name).read_bytes() == b"fine"
        mounted.remount()
    assert "warn" in mounted.log.lower()


def test_workers_that_list_and_open_at_once(store, mount):
    """An existing name is never missing, however many look."""
    store.put_many({f"dir/{i:04}": (1000, i) for i in range(700)})
    mounted = mount(metadata_ttl="50ms", negative_ttl="50ms")

    def work(seed):
        draw = random.Random(seed)
        for _ in range(4):
            assert len(os.listdir(mounted.path / "dir")) == 700
            for i in draw.sample(range(700), 20):
                compare(read_all(mounted.path / f"dir/{i:04}"), 1000, i)

    Together(*[lambda seed=seed: work(seed) for seed in range(10)]).join()


def test_lookups_without_a_listing(store, mount):
    """A file named by its path costs no listing of the directories above it."""
    store.put_many({f"a/b/c/{i:05}": (100, i) for i in range(3000)})
    mounted = mount()
    store.reset()
    compare(read_all(mounted.path / "a/b/c/01234"), 100, 1234)
    assert store.stats().lists <= 8


@pytest.mark.parametrize("fault", ["v1", "plain_keys", "unordered"])
def test_listings_of_other_stores(store, mount, fault):
    store.put_many({f"dir/{i:05}": b"" for i in range(2500)})
    store.put_many({"dir/sub/a": b"", "dir/plus+space x": b""})
    store.fault(fault, {"kind": "list"}, times=-1)
    mounted = mount()
    wanted = sorted([f"{i:05}" for i in range(2500)] + ["sub", "plus+space x"])
    assert sorted(os.listdir(mounted.path / "dir")) == wanted


def test_listing_that_makes_no_progress_ends(mount):
    """Short pages are asked for one after the other, by the store's tokens."""
    with TestStore(max_keys=100) as store:
        store.put_many({f"dir/{i:05}": b"" for i in range(2500)})
        mounted = mount(store=store)
        store.fault("repeat_page", {"kind": "list"}, times=-1)
        store.reset()
        with pytest.raises(OSError):
            os.listdir(mounted.path / "dir")
        assert store.stats().lists < 100
        mounted.umount()


def test_empty_bucket_and_empty_prefix(store, mount):
    mounted = mount()
    assert os.listdir(mounted.path) == []
    second = mount("nothing/here/")
    assert os.listdir(second.path) == []
