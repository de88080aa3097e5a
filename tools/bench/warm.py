#!/usr/bin/env python3
"""Warm: what a job gets from a mount whose cache holds everything, beside the same job on local files, in turns.

The job is the demo's: a DataLoader with two workers over 5,000 JPEG samples in 8 shards of 64 MiB. Then 128 MiB shards
in reads of 1 MiB, in random reads and in MDS's pattern, hot and from disk, with passthrough and without.
"""

import filecmp
import json
import os
import random
import shutil
import subprocess
import time

import support
from support import Row, drop_page_cache, in_processes, in_turns, median, read_all_of, seconds_of, spread

SHARDS = 4
LOADER = support.REPOSITORY / "tools" / "demo_loader"


def read_epoch(bench, folder):
    """One epoch in a process of its own: its record."""
    out = bench.folder / "epoch.json"
    subprocess.run([bench.python, LOADER / "read_epochs.py", "--path", folder, "--out", out], check=True,
                   stdout=subprocess.DEVNULL)
    record = json.loads(out.read_text())[0]
    return {**record, "samples_per_s": record["samples"] / record["wall_s"]}


def loader(bench):
    samples, size_bytes = (500, 52 << 20) if bench.quick else (5000, 512 << 20)
    local = bench.folder / "train"
    local.mkdir()
    bench.progress(f"make {samples} samples")
    subprocess.run([bench.python, LOADER / "make_dataset.py", "--out", local, "--samples", str(samples), "--bytes",
                    str(size_bytes)], check=True, stdout=subprocess.DEVNULL)
    with bench.store() as store:
        for shard in sorted(local.iterdir()):
            store.put_file(f"train/{shard.name}", shard)
        with bench.mount(store, "train/") as mount:
            bench.progress("cold epoch")
            cold = read_epoch(bench, mount.path)
            after_cold = store.stats()
            bench.progress(f"{bench.turns} warm epochs in turns with the local copy's")
            read_epoch(bench, local)
            epochs = in_turns(bench.turns, {"local": lambda: read_epoch(bench, local),
                                            "shardfs": lambda: read_epoch(bench, mount.path)})
            warm_gets = store.stats().gets - after_cold.gets
            passthrough, reason = mount.passthrough()
    checksums = {record["checksum"] for records in epochs.values() for record in records} | {cold["checksum"]}
    assert len(checksums) == 1, "the samples differ"
    rates = {name: [record["samples_per_s"] for record in records] for name, records in epochs.items()}
    ratio = median(rates["shardfs"]) / median(rates["local"])
    rows = [Row("warm epoch, samples/s", spread(rates["shardfs"]), f"{spread(rates['local'])} local copy", ratio,
                "0.95", ratio >= 0.95),
            Row("warm epochs, GETs", str(warm_gets), "", None, "0", warm_gets == 0),
            Row("cold epoch of the same job, samples/s", f"{cold['samples_per_s']:,.0f}",
                f"{spread(rates['local'])} local copy, warm", cold["samples_per_s"] / median(rates["local"])),
            Row("cold epoch, fetched ÷ size", f"{after_cold.body_bytes / cold['bytes']:.3f}", "", None, "1.05",
                after_cold.body_bytes <= 1.05 * cold["bytes"])]
    return rows, {"passthrough": passthrough, "passthrough_reason": reason, "cold": cold,
                  "cold_gets": after_cold.gets, "cold_fetched_bytes": after_cold.body_bytes, "warm_gets": warm_gets,
                  "epochs": epochs}


def random_reads(path, size_bytes, count=20000):
    """Microseconds a read of 4 KiB at seeded random places of an open file, as a mean."""
    places = random.Random(1)
    offsets = [places.randrange(size_bytes // 4096) * 4096 for _ in range(count)]
    file = os.open(path, os.O_RDONLY)
    seconds = seconds_of(lambda: [os.pread(file, 4096, offset) for offset in offsets])
    os.close(file)
    return seconds / count * 1e6


def mds_samples(path, size_bytes, count=2000):
    """Microseconds a sample as MDS reads one: open, 8 bytes near the start, 64 KiB somewhere, close."""
    places = random.Random(5)
    start = time.perf_counter()
    for _ in range(count):
        file = os.open(path, os.O_RDONLY)
        os.pread(file, 8, places.randrange(1000) * 8)
        os.pread(file, 65536, places.randrange(size_bytes // 65536) * 65536)
        os.close(file)
    return (time.perf_counter() - start) / count * 1e6


def with_small_pages(path, size_bytes):
    """The native file, its page cache made of single pages, as FUSE's always is: MB/s of reads of 1 MiB."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    for offset in range(0, size_bytes, 4096):
        os.pread(file, 4096, offset)
    os.close(file)


def shards(bench, passthrough):
    """Reads of whole shards, hot and from disk, small random ones and MDS's: mount and native file, in turns."""
    size = (13 if bench.quick else 128) << 20
    names = [f"shard-{i:06d}.tar" for i in range(SHARDS)]
    local = bench.folder / f"native-{passthrough}"
    local.mkdir()

    def rate(folder, readers=1):
        total = SHARDS * size
        if readers == 1:
            return total / seconds_of(lambda: read_all_of([folder / name for name in names])) / 1e6
        return readers * total / seconds_of(lambda: in_processes(readers, lambda j: read_all_of(
            [folder / name for name in (names[j:] + names[:j])]))) / 1e6

    def from_disk(folder):
        drop_page_cache()
        return rate(folder)

    def mds(folder):
        drop_page_cache()
        return mds_samples(folder / names[2], size)

    with bench.store() as store:
        for seed, name in enumerate(names):
            store.put_generated(f"shards/{name}", size, seed=seed)
        with bench.mount(store, "shards/", "--passthrough", passthrough) as mount:
            for name in names:
                shutil.copyfile(mount.path / name, local / name)
            for name in names:
                assert filecmp.cmp(mount.path / name, local / name, shallow=False), f"{name} differs"
            before = store.stats().gets
            folders = {"native": local, "shardfs": mount.path}

            def turns(count, job):
                return in_turns(count, {name: lambda folder=folder: job(folder) for name, folder in folders.items()})

            figures = {"disk": turns(bench.turns, from_disk), "mds": turns(bench.turns, mds)}
            drop_page_cache()
            for folder in folders.values():  # both caches filled by reading
                rate(folder)
            figures |= {"hot": turns(4 * bench.turns, rate), "hot 2": turns(2 * bench.turns, lambda f: rate(f, 2)),
                        "random": turns(2 * bench.turns, lambda folder: random_reads(folder / names[1], size))}
            if passthrough == "off":
                for name in names:
                    with_small_pages(local / name, size)
                figures["hot, native with 4 KiB folios"] = turns(2 * bench.turns, rate)
            figures["gets"] = store.stats().gets - before
            active, figures["passthrough_reason"] = mount.passthrough()
    shutil.rmtree(local)
    on = "on" if active else "off"

    def compared(key, what, target, faster_is_less=False):
        ours, native = figures[key]["shardfs"], figures[key]["native"]
        ratio = median(ours) / median(native)
        speed = 1 / ratio if faster_is_less else ratio
        return Row(f"warm, passthrough {on}, {what}", spread(ours), f"{spread(native)} native", speed,
                   str(target) if target else "", speed >= target if target else None)

    rows = [compared("hot", "1 MiB reads, hot, one reader, MB/s", 0.95),
            compared("hot 2", "the same, two readers, MB/s", 0.95),
            compared("random", "4 KiB random, hot, µs a read", 0.9, True),
            compared("disk", "1 MiB reads from disk, MB/s", 0.85)]
    if "hot, native with 4 KiB folios" in figures:
        rows.append(compared("hot, native with 4 KiB folios", "1 MiB reads, hot, native in 4 KiB folios, MB/s", None))
    ours, native = figures["mds"]["shardfs"], figures["mds"]["native"]
    above, most = median(ours) - median(native), 60 if active else 80
    rows.append(Row(f"warm, passthrough {on}, MDS's pattern, µs a sample above native", f"{above:.0f}",
                    f"{spread(native)} native in all", None, f"{most} µs", above <= most))
    return rows, figures


def measure(bench):
    rows, job = loader(bench)
    figures = {"loader": job}
    for passthrough in ("auto", "off"):
        bench.progress(f"warm shards, passthrough {passthrough}")
        some, figures[f"shards_{passthrough}"] = shards(bench, passthrough)
        rows += some
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
