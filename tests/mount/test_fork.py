"""Forked readers, as DataLoader workers are: a descriptor or a mapping that the parent opened works in the children."""

import mmap
import os
import random

import pytest

from lib.content import MIB, DataSet, compare, pread_all, whole
from lib.waiting import Child

SIZE, SEED = 24 * MIB + 99, 41


@pytest.fixture(autouse=True)
def made_before_the_forks():
    whole(SIZE, SEED)


def test_children_read_through_the_parents_descriptor(store, mount, passthrough):
    store.put_generated("a", SIZE, SEED)
    mounted = mount(passthrough=passthrough)
    for _ in ("cold", "warm"):
        fd = os.open(mounted.path / "a", os.O_RDONLY)
        compare(os.pread(fd, 8, 0), SIZE, SEED, 0, 8)

        def read(seed):
            draw = random.Random(seed)
            for _ in range(60):
                begin = draw.randrange(SIZE)
                end = begin + draw.choice([8, 4096, 150_000])
                compare(pread_all(fd, begin, min(end, SIZE)), SIZE, SEED, begin, end)

        for child in [Child(lambda seed=seed: read(seed)) for seed in range(4)]:
            child.result()
        os.close(fd)
    assert store.stats().body_bytes <= 1.1 * SIZE


def test_children_read_the_parents_mapping(store, mount, passthrough):
    store.put_generated("a", SIZE, SEED)
    mounted = mount(passthrough=passthrough)
    for _ in ("cold", "warm"):
        with open(mounted.path / "a", "rb", buffering=0) as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        quarter = SIZE // 4
        children = [Child(lambda i=i: compare(mapped[i * quarter:(i + 1) * quarter], SIZE, SEED, i * quarter,
                                              (i + 1) * quarter)) for i in range(4)]
        for child in children:
            child.result()
        mapped.close()


def test_workers_forked_anew_each_epoch(store, mount, passthrough):
    """Each takes every fourth shard; the second epoch fetches nothing."""
    data = DataSet("train", {f"shard-{i:06}.tar": 3 * MIB + i for i in range(16)}).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    names = sorted(data.objects)
    for epoch in range(2):
        children = [Child(lambda part=names[i::4]: [data.compare_file(mounted.path, name) for name in part])
                    for i in range(4)]
        for child in children:
            child.result()
        assert store.stats().body_bytes == data.total_bytes, f"epoch {epoch}"
        for name in names:
            mounted.await_cached(name)


def test_one_shared_offset(store, mount):
    """read(2) through one open file description by four processes: every byte goes to exactly one of them."""
    store.put_generated("a", SIZE, SEED)
    mounted = mount()
    fd = os.open(mounted.path / "a", os.O_RDONLY)

    def drain():
        total = 0
        while part := os.read(fd, 65_536):
            total += len(part)
        return total

    assert sum(child.result() for child in [Child(drain) for _ in range(4)]) == SIZE
    os.close(fd)
