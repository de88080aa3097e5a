"""Several mounts and several readers on one cache folder: one download in total, and the limit is never passed."""

import os
import subprocess
import threading

import pytest

from lib.content import MIB, DataSet, compare, read_all, read_range, whole
from lib.mounting import used_bytes
from lib.waiting import Child, Together, in_child

SHARDS = {f"shard-{i:06}.tar": 10 * MIB + 777 * i for i in range(8)}


def test_two_mounts_read_one_set(store, mount, passthrough):
    data = DataSet("train", SHARDS).put(store)
    first = mount(data.prefix, passthrough=passthrough)
    second = mount(data.prefix, passthrough=passthrough)
    store.shape(first_byte_ms=20, connection_mbps=50)  # so that the two overlap
    Together(lambda: data.compare_tree(first.path), lambda: data.compare_tree(second.path)).join()
    assert store.stats().body_bytes <= 1.1 * data.total_bytes
    store.reset()
    for mounted in (first, second):
        for name in data.objects:
            mounted.await_cached(name)
        data.compare_tree(mounted.path)
    assert store.stats().gets == 0


def test_second_mount_after_the_first_was_killed(store, mount):
    data = DataSet("train", SHARDS).put(store)
    first, second = mount(data.prefix), mount(data.prefix)
    store.shape(connection_mbps=40)
    reader = Child(lambda: read_all(first.path / "shard-000000.tar"))
    compare(read_range(second.path / "shard-000000.tar", 0, 1000), *data.objects["shard-000000.tar"], end=1000)
    first.kill()  # perhaps while it fills blocks that the second waits for
    reader.close()
    store.shape(connection_mbps=0)
    data.compare_tree(second.path)


def test_readers_of_one_cold_shard(store, mount):
    size, seed = 40 * MIB + 5, 21
    whole(size, seed)  # made once, before the forks
    store.put_generated("a", size, seed)
    store.shape(first_byte_ms=10, connection_mbps=100)
    mounted = mount()
    children = [Child(lambda: compare(read_all(mounted.path / "a"), size, seed)) for _ in range(8)]
    for child in children:
        child.result()
    assert size <= store.stats().body_bytes <= 1.05 * size


@pytest.fixture
def own_disk(run_folder):
    """A file system of its own, whose use can be read at one instant: a walk over files sees one that is evicted and one
    that is written after it."""
    folder = run_folder / "own-disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M,mode=0700", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()


def largest_use(disk, work):
    """Of the file system, while the work runs."""
    stop = threading.Event()
    found = []

    def sample():
        while not stop.is_set():
            space = os.statvfs(disk)
            found.append((space.f_blocks - space.f_bfree) * space.f_frsize)
            stop.wait(0.002)

    sampler = Together(sample)
    try:
        work()
    finally:
        stop.set()
        sampler.join()
    assert len(found) > 10
    return max(found)


def test_limit_with_eight_readers(store, own_disk, mount):
    data = DataSet("train", {f"{i:03}.tar": 4 * MIB + i * 999 for i in range(40)}).put(store)  # 5 x the limit
    limit = 32 * MIB
    mounted = mount(data.prefix, cache_dir=own_disk / "cache", cache_size="32M")
    names = list(data.objects)

    def read():
        for _ in range(2):
            Together(*[lambda part=names[i::8]: [data.compare_file(mounted.path, name) for name in part]
                       for i in range(8)]).join()

    assert limit / 2 < largest_use(own_disk, read) <= limit
    stats = mounted.stats()
    assert stats["cache_used_bytes"] <= limit
    assert stats["cache_limit_bytes"] == limit


def test_limit_is_of_the_folder_not_of_each_mount(store, own_disk, mount):
    data = DataSet("train", {f"{i:03}.tar": 4 * MIB for i in range(24)}).put(store)
    mounts = [mount(data.prefix, cache_dir=own_disk / "cache", cache_size="32M") for _ in range(3)]
    names = list(data.objects)

    def read():
        Together(*[lambda m=m, i=i: [data.compare_file(m.path, name) for name in names[i * 8:] + names[:i * 8]]
                   for i, m in enumerate(mounts)]).join()

    assert largest_use(own_disk, read) <= 32 * MIB


def test_mapping_outlives_its_eviction(store, mount):
    """A passthrough mapping that the daemon can't see keeps its bytes while everything else goes through the cache."""
    import mmap
    data = DataSet("train", {f"{i:03}.tar": 4 * MIB for i in range(30)}).put(store)
    mounted = mount(data.prefix, cache_size="24M", passthrough="on")

    def hold():
        data.compare_file(mounted.path, "000.tar")
        mounted.await_cached("000.tar")
        with open(mounted.path / "000.tar", "rb", buffering=0) as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        for name in list(data.objects)[1:]:
            data.compare_file(mounted.path, name)
        compare(mapped[:], *data.objects["000.tar"])
        mapped.close()
        assert used_bytes(mounted.cache) <= 24 * MIB

    in_child(hold)
    assert os.path.ismount(mounted.path)
