"""What is fetched before it is asked for, seen by the requests that the store got: which keys and ranges, each once."""

import os
import random
import threading

import pytest

from lib.content import MIB, compare, read_all
from lib.waiting import Together, until

SMALL = 110_000


def put_files(store, directory, count, size=SMALL, first_seed=0):
    names = [f"{i:05d}.jpg" for i in range(count)]
    store.put_many({f"{directory}/{name}": (size, first_seed + i) for i, name in enumerate(names)})
    return names


def gets(store):
    """Key to the ranges asked for, in order."""
    found = {}
    for request in store.log():
        if request["kind"] == "get":
            found.setdefault(request["key"], []).append(tuple(request["asked"]))
    return found


def assert_each_once(store, sizes):
    """sizes: key to size. Every one was fetched whole, by one request."""
    found = gets(store)
    twice = {key: ranges for key, ranges in found.items() if len(ranges) > 1}
    assert not twice
    wrong = {key: ranges for key, ranges in found.items() if ranges[0] != (0, sizes[key])}
    assert not wrong


def read_and_compare(mounted, path, size, seed):
    compare(read_all(mounted.path / path), size, seed, what=path)


def test_in_listed_order(store, mount, passthrough):
    names = put_files(store, "d", 300)
    mounted = mount(passthrough=passthrough)
    assert os.listdir(mounted.path / "d") == names
    store.reset()
    for i in range(8):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    until(lambda: len(gets(store)) == 8 + 64, lambda: f"the next 64 are fetched; {len(gets(store)) - 8} are")
    assert set(gets(store)) == {f"d/{name}" for name in names[:72]}
    for i in range(8, 300):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    assert_each_once(store, {f"d/{name}": SMALL for name in names})
    assert store.stats().heads == 0


def test_four_readers_share_the_list(store, mount):
    names = put_files(store, "d", 400)
    mounted = mount()
    os.listdir(mounted.path / "d")
    store.reset()

    def reader(first):
        for i in range(first, 400, 4):
            read_and_compare(mounted, f"d/{names[i]}", SMALL, i)

    Together(*[lambda first=first: reader(first) for first in range(4)]).join()
    assert len(gets(store)) == 400
    assert_each_once(store, {f"d/{name}": SMALL for name in names})
    assert mounted.counter("fs_foreseen{small_files_opened}") > 0


def test_a_few_files_in_order_fetch_a_few_more(store, mount):
    names = put_files(store, "d", 1000)
    mounted = mount(cache_size="16M")  # the directory does not fit
    os.listdir(mounted.path / "d")
    store.reset()
    for i in range(5):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    until(lambda: len(gets(store)) == 5 + 25, lambda: f"25 more are fetched, not {len(gets(store)) - 5}")
    assert set(gets(store)) == {f"d/{name}" for name in names[:30]}
    assert_each_once(store, {f"d/{name}": SMALL for name in names})


def test_an_image_folder_shuffled(store, mount):
    order = []
    for c in range(20):
        names = put_files(store, f"train/class{c:02d}", 15, 10_000, c * 15)
        order += [(f"train/class{c:02d}/{name}", c * 15 + i) for i, name in enumerate(names)]
    mounted = mount()
    for c in sorted(os.listdir(mounted.path / "train")):
        os.listdir(mounted.path / "train" / c)
    store.reset()
    random.Random(5).shuffle(order)
    for path, seed in order[:40]:
        read_and_compare(mounted, path, 10_000, seed)
    until(lambda: len(gets(store)) == 300, lambda: f"all siblings are fetched; {len(gets(store))} files are")
    for path, seed in order[40:]:
        read_and_compare(mounted, path, 10_000, seed)
    assert_each_once(store, {path: 10_000 for path, _ in order})
    assert store.stats().heads == 0


def test_without_a_listing(store, mount):
    """A job that has a list of names and never reads a directory."""
    names = put_files(store, "d", 200)
    mounted = mount()
    for i in range(30):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    until(lambda: len(gets(store)) > 100, lambda: f"more is fetched than the {len(gets(store))}")
    assert store.stats().heads < 30


def test_a_set_larger_than_the_free_cache_is_not_pulled(store, mount):
    names = put_files(store, "d", 120, 500_000)
    mounted = mount(cache_size="32M")
    os.listdir(mounted.path / "d")
    store.reset()
    opened = [(i * 37 + 11) % 120 for i in range(30)]
    for i in opened:
        read_and_compare(mounted, f"d/{names[i]}", 500_000, i)
    assert set(gets(store)) == {f"d/{names[i]}" for i in opened}


def test_without_a_cache_a_window_ahead(store, mount):
    names = put_files(store, "d", 300)
    mounted = mount(cache_size="0", memory_limit="64M")
    os.listdir(mounted.path / "d")
    store.reset()
    for i in range(10):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    until(lambda: len(gets(store)) >= 10 + 16, "the window is fetched")
    for i in range(10, 300):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    assert_each_once(store, {f"d/{name}": SMALL for name in names})


def test_an_open_waits_for_what_is_under_way(store, mount):
    names = put_files(store, "d", 40)
    mounted = mount()
    os.listdir(mounted.path / "d")
    store.reset()
    held = store.hold({"kind": "get", "key": f"d/{names[20]}"})
    for i in range(10):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    store.await_waiting(1)
    began = threading.Event()

    def reader():
        began.set()
        read_and_compare(mounted, f"d/{names[20]}", SMALL, 20)

    reading = Together(reader)
    assert began.wait(60)
    until(lambda: mounted.stats()["metrics"]["gauges"]["fetch_parked_reads"] > 0, "the reader waits")
    store.release(held)
    reading.join()
    until(lambda: len(gets(store)) == 40, "the directory is fetched")
    assert_each_once(store, {f"d/{name}": SMALL for name in names})


def test_objects_deleted_under_the_prediction(store, mount):
    names = put_files(store, "d", 100)
    mounted = mount()
    os.listdir(mounted.path / "d")
    for name in names[50::2]:
        assert store.remove(f"d/{name}")
    store.reset()
    for i in range(8):
        read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    until(lambda: len(gets(store)) == 8 + 64, lambda: f"the next 64 are asked for; {len(gets(store)) - 8} are")
    until(lambda: mounted.stats()["metrics"]["gauges"]["fetch_parts"] == 0, "all have ended")
    assert "while it was open" not in mounted.log
    for i in range(8, 100):
        if i >= 50 and i % 2 == 0:
            with pytest.raises(OSError):
                read_all(mounted.path / "d" / names[i])
        else:
            read_and_compare(mounted, f"d/{names[i]}", SMALL, i)
    assert all(len(ranges) <= 3 for ranges in gets(store).values())


def test_the_next_epoch_asks_for_nothing(store, mount, passthrough):
    names = put_files(store, "d", 60)
    mounted = mount(passthrough=passthrough)
    os.listdir(mounted.path / "d")
    for i, name in enumerate(names):
        read_and_compare(mounted, f"d/{name}", SMALL, i)
    for name in names:
        mounted.await_cached(f"d/{name}")
    mounted.remount()
    os.listdir(mounted.path / "d")
    store.reset()
    before = mounted.counter("fs_foreseen{small_files}")
    for i, name in enumerate(names):
        read_and_compare(mounted, f"d/{name}", SMALL, i)
    assert gets(store) == {}
    assert mounted.counter("fs_foreseen{small_files}") == before


SHARD = 24 * MIB + 4321
FIRST_WINDOW = 16 * MIB


def put_shards(store, count):
    names = [f"{i:05d}.tar" for i in range(count)]
    store.put_many({f"s/{name}": (SHARD, i) for i, name in enumerate(names)})
    return names


def bytes_asked(store, key):
    """How many, and whether none was asked for twice."""
    ranges = sorted(gets(store).get(key, []))
    assert all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:])), f"{key}: {ranges}"
    return sum(end - begin for begin, end in ranges)


def test_the_next_shard_is_there_before_it_is_opened(store, mount):
    names = put_shards(store, 8)
    mounted = mount()
    os.listdir(mounted.path / "s")
    store.reset()
    for i in range(3):
        read_and_compare(mounted, f"s/{names[i]}", SHARD, i)
        # All of it once a guess has come true; before that at most 64 MiB.
        wanted = min(SHARD, 64 * MIB) if i == 0 else SHARD
        until(lambda following=i + 1: bytes_asked(store, f"s/{names[following]}") == wanted, "the next one is fetched")
    mounted.await_cached(f"s/{names[3]}")
    assert not [name for name in names[6:] if f"s/{name}" in gets(store)]
    for name in names[:4]:
        assert bytes_asked(store, f"s/{name}") == SHARD


def test_without_a_cache_its_first_window(store, mount):
    names = put_shards(store, 4)
    mounted = mount(cache_size="0", memory_limit="128M")
    os.listdir(mounted.path / "s")
    store.reset()
    for i in range(3):
        read_and_compare(mounted, f"s/{names[i]}", SHARD, i)
        until(lambda following=i + 1: bytes_asked(store, f"s/{names[following]}") >= FIRST_WINDOW, "its first window")
        assert bytes_asked(store, f"s/{names[i + 1]}") == FIRST_WINDOW
    for name in names[:3]:
        assert bytes_asked(store, f"s/{name}") == SHARD


def test_a_next_shard_that_was_deleted(store, mount):
    names = put_shards(store, 4)
    mounted = mount()
    os.listdir(mounted.path / "s")
    store.remove(f"s/{names[1]}")
    store.reset()
    read_and_compare(mounted, f"s/{names[0]}", SHARD, 0)
    until(lambda: f"s/{names[1]}" in gets(store), "the next one is asked for")
    with pytest.raises(OSError):
        read_all(mounted.path / "s" / names[1])
    read_and_compare(mounted, f"s/{names[2]}", SHARD, 2)
    assert len(gets(store)[f"s/{names[1]}"]) <= 16
