"""Right bytes: whole data sets, compared byte for byte, by every route and with caches of every size."""

import ctypes
import mmap
import os
import random

import pytest

from lib.content import (MIB, DataSet, compare, names_set, nested_set, pread_all, read_all, read_range, sizes_set)
from lib.mounting import used_bytes
from lib.waiting import Together, in_child

SETS = {"sizes": sizes_set, "names": names_set, "nested": nested_set}


@pytest.fixture(params=SETS)
def data(request, store):
    return SETS[request.param]().put(store)


def test_cold_warm_and_remounted(store, mount, data, passthrough):
    mounted = mount(data.prefix, passthrough=passthrough)
    data.compare_tree(mounted.path)
    assert data.total_bytes <= store.stats().body_bytes <= 1.1 * data.total_bytes
    data.compare_tree(mounted.path)
    for name, (size, _) in data.objects.items():
        if size > 0:
            mounted.await_cached(os.fsencode(name).decode("utf-8", "surrogateescape"))
    store.reset()
    mounted.remount()
    data.compare_tree(mounted.path)
    data.compare_tree(mounted.path)
    assert store.stats().gets == 0


@pytest.mark.parametrize("cache_size", ["40M", "8M", "0"])
def test_cache_smaller_than_the_set(store, mount, cache_size):
    data = sizes_set().put(store)  # 48 MiB
    mounted = mount(data.prefix, cache_size=cache_size)
    for _ in range(2):
        data.compare_tree(mounted.path)
        data.compare_tree(mounted.path)
        if cache_size != "0":
            assert used_bytes(mounted.cache) <= int(cache_size[:-1]) * MIB
        mounted.remount()
    if cache_size == "0":
        assert not mounted.cache.exists() or used_bytes(mounted.cache) == 0


def test_offsets_beyond_32_bits(store, mount, passthrough):
    size, seed = 5 * (1 << 30) + 12345, 77
    store.put_generated("big", size, seed)
    mounted = mount(passthrough=passthrough)
    path = mounted.path / "big"
    assert os.stat(path).st_size == size
    around = [1 << 31, 1 << 32, size]
    ranges = [(at - 300_000, at + 300_000) for at in around] + [(size - 1, size), (size, size + 10)]
    ranges += [(at - 1, at + 1) for at in around]
    fd = os.open(path, os.O_RDONLY)
    for begin, end in ranges:
        compare(pread_all(fd, begin, end), size, seed, begin, end)
    assert os.lseek(fd, 0, os.SEEK_END) == size
    assert os.lseek(fd, 1 << 32, os.SEEK_SET) == 1 << 32
    compare(os.read(fd, 100_000), size, seed, 1 << 32, (1 << 32) + 100_000)
    assert store.stats().body_bytes < 256 * MIB  # far from whole
    compare(pread_all(fd, 0, 4096), size, seed, 0, 4096)  # from here on it is pulled whole
    os.close(fd)
    compare(in_child(lambda: map_ranges(path, mmap.MAP_SHARED, [(at - 4096, at + 4096) for at in around[:2]])[0]),
            size, seed, (1 << 31) - 4096, (1 << 31) + 4096)


def map_ranges(path, kind, ranges):
    with open(path, "rb", buffering=0) as file:
        with mmap.mmap(file.fileno(), 0, flags=kind, prot=mmap.PROT_READ) as mapped:
            return [mapped[begin:end] for begin, end in ranges]


@pytest.mark.parametrize("kind", [mmap.MAP_SHARED, mmap.MAP_PRIVATE], ids=["shared", "private"])
def test_mmap(store, mount, passthrough, kind):
    size, seed = 20 * MIB + 13, 5
    store.put_generated("a", size, seed)
    mounted = mount(passthrough=passthrough)
    path = mounted.path / "a"
    draw = random.Random(kind)
    ranges = [(begin, min(size, begin + draw.randrange(1, 200_000)))
              for begin in (draw.randrange(size) for _ in range(40))] + [(0, 1), (size - 1, size), (0, size)]
    for _ in ("cold", "warm"):
        for (begin, end), found in zip(ranges, in_child(lambda: map_ranges(path, kind, ranges))):
            compare(found, size, seed, begin, end)
        mounted.await_cached("a")
    # Behind the end of the object the last page is zero.
    tail = in_child(lambda: last_page(path, size))
    assert tail == bytes(4096 - size % 4096)


def last_page(path, size):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    fd = os.open(path, os.O_RDONLY)
    page = size // 4096 * 4096
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, page)
    return ctypes.string_at(at + size % 4096, 4096 - size % 4096)


@pytest.mark.parametrize("cache_size", ["1G", "12M", "0"])
def test_random_reads_of_several_threads(store, mount, passthrough, cache_size):
    if cache_size == "0" and passthrough == "on":
        pytest.skip("passthrough needs a cache")
    sizes = {"a": 8 * MIB + 1, "b": 20 * MIB + 13, "c": 3 * MIB}
    for key, size in sizes.items():
        store.put_generated(key, size, len(key) + size)
    mounted = mount(passthrough=passthrough, cache_size=cache_size)

    def read(seed):
        draw = random.Random(seed)
        for _ in range(40):
            key = draw.choice(list(sizes))
            size = sizes[key]
            begin = draw.randrange(size)
            end = begin + draw.choice([1, 4096, 65536, 700_000])
            compare(read_range(mounted.path / key, begin, end), size, len(key) + size, begin, end, key)

    Together(*[lambda seed=seed: read(seed) for seed in range(6)]).join()


def test_step_sizes_and_reads_at_the_end(store, mount, passthrough):
    size, seed = 3 * MIB + 17, 9
    store.put_generated("a", size, seed)
    mounted = mount(passthrough=passthrough)
    for step in (4097, 65536, 1_000_003, 64 * MIB):
        compare(read_all(mounted.path / "a", step), size, seed)
    fd = os.open(mounted.path / "a", os.O_RDONLY)
    assert os.pread(fd, 100, size) == b""
    assert os.pread(fd, 100, size + 10 * MIB) == b""
    compare(os.pread(fd, 100, size - 3), size, seed, size - 3)
    os.close(fd)


def test_stored_bytes_of_compressed_objects(store, mount):
    size, seed = 298_000, 3
    store.put_generated("a.gz", size, seed, content_encoding="gzip")
    mounted = mount()
    assert os.stat(mounted.path / "a.gz").st_size == size
    compare(read_all(mounted.path / "a.gz"), size, seed)


def test_same_name_in_two_sets(store, mount):
    for prefix, seed in (("x/", 1), ("y/", 2)):
        store.put_generated(prefix + "0.tar", MIB, seed, etag='"same"')
    first, second = mount("x/"), mount("y/")
    for _ in range(2):
        compare(read_all(first.path / "0.tar"), MIB, 1)
        compare(read_all(second.path / "0.tar"), MIB, 2)
        first.remount()
        second.remount()


def test_prefix_with_and_without_slash(store, mount):
    data = DataSet("train", {"a": 100, "sub/b": 200}).put(store)
    store.put("train-2/other", b"x")
    for prefix in ("train", "train/"):
        mounted = mount(prefix)
        data.compare_tree(mounted.path)
        mounted.umount()
