"""Cache disks that are too small, full or broken: the mount works, streams right bytes and says so once."""

import os
import subprocess

import pytest

from lib.content import MIB, DataSet, compare, read_all
from lib.mounting import used_bytes


@pytest.fixture
def tiny_disk(folder):
    path = folder / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(path)], check=True)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


SET = {f"{i:03}.tar": 3 * MIB + i for i in range(12)}


def warnings(mounted):
    return [line for line in mounted.log.splitlines() if "warn" in line.lower()]


def test_limit_above_the_disk(store, mount, tiny_disk, passthrough):
    data = DataSet("train", SET).put(store)
    mounted = mount(data.prefix, cache_dir=tiny_disk / "cache", cache_size="1G", passthrough=passthrough)
    said = mounted.started.stderr + mounted.log
    assert sum("cache" in line and "free" in line for line in said.splitlines()) == 1, said
    for _ in range(2):
        data.compare_tree(mounted.path)
    assert used_bytes(tiny_disk) <= 24 * MIB


def test_disk_filled_by_others(store, mount, tiny_disk, passthrough):
    data = DataSet("train", SET).put(store)
    mounted = mount(data.prefix, cache_dir=tiny_disk / "cache", cache_size="16M", passthrough=passthrough)
    names = list(data.objects)
    data.compare_file(mounted.path, names[0])
    fill(tiny_disk)
    for _ in range(2):
        data.compare_tree(mounted.path)
    said = warnings(mounted)
    assert len(said) == 1, said
    (tiny_disk / "filler").unlink()
    data.compare_tree(mounted.path)


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as filler:
        block = bytes(65536)
        try:
            while filler.write(block):
                pass
        except OSError:
            pass


def test_start_on_a_full_disk(store, mount, tiny_disk):
    data = DataSet("train", SET).put(store)
    fill(tiny_disk)
    mounted = mount(data.prefix, cache_dir=tiny_disk / "cache", cache_size="16M")
    data.compare_tree(mounted.path)


def test_object_larger_than_the_cache(store, mount):
    size, seed = 40 * MIB + 3, 1
    store.put_generated("a", size, seed)
    store.put_generated("b", MIB, 2)
    mounted = mount(cache_size="12M")
    for _ in range(2):
        compare(read_all(mounted.path / "a"), size, seed)
        compare(read_all(mounted.path / "b"), MIB, 2)
        assert used_bytes(mounted.cache) <= 12 * MIB
    assert store.stats().key("a").body_bytes <= 2.1 * size
    assert len([line for line in warnings(mounted) if "does not fit into the cache of 12 MiB" in line]) == 1, mounted.log
    mounted.remount()
    compare(read_all(mounted.path / "a"), size, seed)


def test_free_space_that_is_asked_for_stays_free(store, mount, tiny_disk):
    data = DataSet("train", SET).put(store)
    mounted = mount(data.prefix, cache_dir=tiny_disk / "cache", cache_size="20M", cache_min_free="12M")
    data.compare_tree(mounted.path)
    space = os.statvfs(tiny_disk)
    assert space.f_bavail * space.f_frsize >= 12 * MIB


def test_cache_on_a_read_only_disk(store, mount, tiny_disk):
    data = DataSet("train", SET).put(store)
    mounted = mount(data.prefix, cache_dir=tiny_disk / "cache", cache_size="16M")
    data.compare_file(mounted.path, "000.tar")
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=False, capture_output=True)
    data.compare_tree(mounted.path)
