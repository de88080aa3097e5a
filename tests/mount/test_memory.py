"""Memory: one budget for the mount, however many files are open and however slow the cache is."""

import os
import random
import threading

from lib.content import MIB, DataSet, compare, read_all
from lib.mounting import sanitized
from lib.waiting import Together


def watch(mounted, work):
    """The largest value of the memory gauge while the work runs."""
    largest = [0]
    stop = threading.Event()

    def sample():
        while not stop.is_set():
            largest[0] = max(largest[0], mounted.stats()["memory_used_bytes"])

    sampler = Together(sample)
    try:
        work()
    finally:
        stop.set()
        sampler.join()
    return largest[0]


def test_gauge_stays_within_the_limit(store, mount):
    limit = 32 * MIB
    data = DataSet("train", {f"{i}.tar": 16 * MIB + i for i in range(10)}).put(store)
    mounted = mount(data.prefix, memory_limit="32M", cache_size="0")
    names = list(data.objects)
    largest = watch(mounted, lambda: Together(*[lambda part=names[i::5]: [data.compare_file(mounted.path, n)
                                                                          for n in part] for i in range(5)]).join())
    assert 0 < largest <= limit
    assert mounted.stats()["memory_limit_bytes"] == limit


def test_more_parked_reads_than_memory(store, mount):
    """Windows shrink; nothing fails."""
    store.put_many({f"{i:03}": (4 * MIB, i + 1) for i in range(40)})
    mounted = mount(memory_limit="32M")
    store.hold({"kind": "get"})
    readers = Together(*[lambda i=i: compare(read_all(mounted.path / f"{i:03}"), 4 * MIB, i + 1) for i in range(40)])
    store.release()
    readers.join()
    assert mounted.stats()["memory_used_bytes"] <= 32 * MIB


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def test_hundreds_of_open_files(store, mount):
    """500 open handles with small random reads: the process stays near its budget."""
    size = 2 * MIB
    store.put_many({f"{i:03}": (size, i + 1) for i in range(500)})
    mounted = mount(memory_limit="64M")
    handles = [os.open(mounted.path / f"{i:03}", os.O_RDONLY) for i in range(500)]

    def read(seed):
        draw = random.Random(seed)
        for _ in range(150):
            i, begin = draw.randrange(500), draw.randrange(size)
            compare(os.pread(handles[i], 4096, begin), size, i + 1, begin, begin + 4096)

    Together(*[lambda seed=seed: read(seed) for seed in range(4)]).join()
    for fd in handles:
        os.close(fd)
    if not sanitized():  # its shadow memory counts, too
        assert resident_bytes(mounted.pid) < 256 * MIB
