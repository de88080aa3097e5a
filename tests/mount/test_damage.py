"""Files of the cache that somebody cuts or overwrites by hand while a mount uses them."""

import os

import pytest

from lib.content import MIB, DataSet, read_range

SHARDS = {f"{i:03}.tar": 9 * MIB + i for i in range(4)}


def damage(mounted, suffix, length):
    """Cuts every file of the cache whose name ends so; returns how many."""
    paths = [path for path in mounted.cache.rglob("*") if path.name.endswith(suffix)]
    for path in paths:
        os.truncate(path, length)
    return len(paths)


@pytest.mark.parametrize("length", [0, 150])
def test_maps_and_budget_cut_while_mounted(store, mount, passthrough, length):
    data = DataSet("train", SHARDS).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    names = list(data.objects)
    for name in names[:2]:
        data.compare_file(mounted.path, name)
        mounted.await_cached(name)
    read_range(mounted.path / names[2], 0, MIB)
    before = mounted.pid
    held = os.open(mounted.path / names[1], os.O_RDONLY)  # complete, and passed through if it may
    try:
        assert damage(mounted, ".map", length) >= 3  # the next shard may be under way
        assert damage(mounted, "budget", length) == 1
        for _ in range(2):
            for name in [names[0], *reversed(names)]:
                data.compare_file(mounted.path, name)
    finally:
        os.close(held)
    data.compare_tree(mounted.path)
    stats = mounted.stats()
    assert stats["pid"] == before
    assert stats["cache_used_bytes"] <= 1 << 30, stats
    mounted.remount()
    data.compare_tree(mounted.path)
    for name in names:
        mounted.await_cached(name)
