"""What is fetched for what a job reads of one cold file: the bytes that the store sent, not only those that were read."""

import mmap
import os
import random

from lib.content import MIB, compare, pread_all, read_all
from lib.waiting import Child, until

SHARD = 128 * MIB
PAGE = 4096


def quiet(store, mounted):
    """Nothing is under way any more."""
    until(lambda: mounted.stats()["parked_reads"] == 0 and mounted.stats()["metrics"]["gauges"]["fetch_parts"] == 0, "parts end")


def test_twenty_random_reads_cost_what_they_touch(store, mount, passthrough):
    store.put_generated("shard", SHARD, 1)
    mounted = mount(passthrough=passthrough)
    draw = random.Random(2)
    fd = os.open(mounted.path / "shard", os.O_RDONLY)
    for _ in range(20):
        begin = draw.randrange(MIB, SHARD - 64 * 1024)
        compare(pread_all(fd, begin, begin + 64 * 1024), SHARD, 1, begin, begin + 64 * 1024)
    os.close(fd)
    quiet(store, mounted)
    assert store.stats().body_bytes <= 3_000_000


def test_a_footer_costs_what_it_touches(store, mount, passthrough):
    size = 1024 * MIB + 5
    store.put_generated("table.parquet", size, 1)
    mounted = mount(passthrough=passthrough)
    fd = os.open(mounted.path / "table.parquet", os.O_RDONLY)
    for begin in (size - 8, size - 64 * 1024):
        compare(pread_all(fd, begin, size), size, 1, begin, size)
    os.close(fd)
    quiet(store, mounted)
    assert store.stats().body_bytes <= 500_000


def test_a_page_of_a_large_file_costs_a_window(store, mount, passthrough):
    size = 1024 * MIB
    store.put_generated("large", size, 1)
    mounted = mount(passthrough=passthrough)
    fd = os.open(mounted.path / "large", os.O_RDONLY)
    compare(os.pread(fd, PAGE, 0), size, 1, 0, PAGE)
    quiet(store, mounted)
    os.close(fd)
    assert store.stats().body_bytes <= 16 * MIB


def test_eight_processes_read_one_shard(store, mount, passthrough):
    store.put_generated("shard", 64 * MIB, 1)
    mounted = mount(passthrough=passthrough)
    children = [Child(lambda: len(read_all(mounted.path / "shard", 128 * 1024))) for _ in range(8)]
    assert [child.result() for child in children] == [64 * MIB] * 8
    assert store.stats().body_bytes == 64 * MIB


def test_a_sample_at_each_open_pulls_the_shard(store, mount, passthrough):
    store.put_generated("shard", 64 * MIB, 1)
    mounted = mount(passthrough=passthrough)
    draw = random.Random(3)
    for _ in range(8):
        fd = os.open(mounted.path / "shard", os.O_RDONLY)
        os.pread(fd, 8, 16)
        begin = draw.randrange(64 * MIB - 65536)
        compare(pread_all(fd, begin, begin + 65536), 64 * MIB, 1, begin, begin + 65536)
        os.close(fd)
    mounted.await_cached("shard")
    quiet(store, mounted)
    assert store.stats().body_bytes <= 1.05 * 64 * MIB


def test_pages_of_a_map_at_random(store, mount, passthrough):
    store.put_generated("data.mdb", SHARD, 1)
    mounted = mount(passthrough=passthrough)
    draw = random.Random(4)
    with open(mounted.path / "data.mdb", "rb", buffering=0) as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_RANDOM)

    def fault(count):
        for _ in range(count):
            begin = draw.randrange(1, SHARD // PAGE) * PAGE
            compare(mapped[begin:begin + PAGE], SHARD, 1, begin, begin + PAGE)

    fault(20)
    quiet(store, mounted)
    assert store.stats().body_bytes <= 3_000_000
    fault(300)
    mounted.await_cached("data.mdb")
    mapped.close()
    quiet(store, mounted)
    assert store.stats().body_bytes <= 1.05 * SHARD
