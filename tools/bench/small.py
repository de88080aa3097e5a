#!/usr/bin/env python3
"""Small files: 1,000 of 110 KB in listed order by four readers, and an image folder of 5,000 files of 10 KB in class
directories, shuffled over all of them, by two readers, cold and warm."""

import http.client
import os
import random
import shutil
import time
import urllib.parse

import support
from support import Row, in_processes, in_turns, median, read_all_of, seconds_of, spread

LISTED, LISTED_BYTES, READERS = 1000, 110_000, 4
CLASSES, IMAGES, IMAGE_BYTES, WORKERS = 50, 5000, 10_000, 2


def listed_files(bench):
    with bench.store() as store:
        store.put_many({f"small/img-{i:06d}.jpg": (LISTED_BYTES, i) for i in range(LISTED)})
        urls = [store.endpoint + store.path(f"small/img-{i:06d}.jpg") for i in range(LISTED)]

        def job(mounting):
            with mounting() as mount:
                names = [mount.path / f"img-{i:06d}.jpg" for i in range(LISTED)]
                start = time.perf_counter()
                total = sum(in_processes(READERS, lambda j: read_all_of(names[j::READERS])))
                assert total == LISTED * LISTED_BYTES
                return time.perf_counter() - start

        bench.progress(f"{LISTED} files of {LISTED_BYTES} bytes, {READERS} readers")
        jobs = {system: lambda mounting=mounting: job(mounting)
                for system, mounting in bench.systems(store, "small/").items()}
        seconds = in_turns(bench.turns, {"shardfs": jobs.pop("shardfs"), "GETs": lambda: seconds_of(
            lambda: in_processes(READERS, lambda j: get_all(urls[j::READERS])))})
        peers = in_turns(1, jobs)
    beside = [f"{spread(seconds['GETs'])} one GET at a time each"] + [f"{spread(v)} {k}" for k, v in peers.items()]
    ours = median(seconds["shardfs"])
    return [Row(f"{LISTED:,} files of 110 KB in order, {READERS} readers, s", spread(seconds["shardfs"]),
                ", ".join(beside), ours / median(seconds["GETs"]), "1.5 s", ours <= 1.5)], {**seconds, **peers}


def get_all(urls):
    """One after the other, on one connection."""
    connection = None
    total = 0
    for url in urls:
        parts = urllib.parse.urlsplit(url)
        connection = connection or http.client.HTTPConnection(parts.netloc)
        connection.request("GET", parts.path)
        total += len(connection.getresponse().read())
    return total


def image_folder(bench):
    images = IMAGES // (10 if bench.quick else 1)
    local = bench.folder / "images"

    def names(count):
        return [f"class-{i % CLASSES:03d}/img-{i:06d}.jpg" for i in range(count)]

    def epoch(root, count, seed):
        """The paths as ImageFolder walks them, shuffled anew; us: microseconds a sample and worker."""
        paths = sorted(os.path.join(folder, file) for folder, _, files in os.walk(root) for file in files)
        assert len(paths) == count
        random.Random(seed).shuffle(paths)
        start = time.perf_counter()
        total = sum(in_processes(WORKERS, lambda j: read_all_of(paths[j::WORKERS])))
        seconds = time.perf_counter() - start
        assert total == count * IMAGE_BYTES
        return {"samples_per_s": count / seconds, "us": seconds / count * WORKERS * 1e6}

    def epochs(mounting, count):
        with mounting() as mount:
            store.reset()
            cold = epoch(mount.path, count, 1)
            stats = store.stats()
            if not local.exists():
                shutil.copytree(mount.path, local)
            epoch(mount.path, count, 2)
            runs = in_turns(2, {"hot": lambda: epoch(mount.path, count, 3), "native": lambda: epoch(local, count, 3)})
            return {"cold": cold, **{name: results[1] for name, results in runs.items()}, "gets": stats.gets,
                    "MB": stats.body_bytes / 1e6}

    bench.progress(f"image folder of {images} files in {CLASSES} classes; a tenth of it through the peers")
    with bench.store() as store:
        few = images // 10
        store.put_many({f"images/{name}": (IMAGE_BYTES, i) for i, name in enumerate(names(images))})
        store.put_many({f"few/{name}": (IMAGE_BYTES, i) for i, name in enumerate(names(few))})
        ours = [epochs(bench.systems(store, "images/")["shardfs"], images) for _ in range(bench.turns)]
        shutil.rmtree(local)
        peers = {system: epochs(mounting, few) for system, mounting in bench.systems(store, "few/").items()
                 if system != "shardfs"}
    cold = [run["cold"]["samples_per_s"] for run in ours]
    above = [run["hot"]["us"] - run["native"]["us"] for run in ours]
    cold_peers = ", ".join(f"{run['cold']['samples_per_s']:.0f} {system}" for system, run in peers.items())
    warm_peers = "".join(f", {run['hot']['us']:.0f} {system}" for system, run in peers.items())
    native = spread([run["native"]["us"] for run in ours])
    return [Row(f"image folder of {images:,} × 10 KB, shuffled, two workers, cold, samples/s", spread(cold), cold_peers,
                None, "1,500", median(cold) >= 1500),
            Row("the same warm, µs a sample and worker above the local copy", spread(above),
                f"{native} local copy in all{warm_peers}", None, "60 µs", median(above) <= 60)], {
                    "shardfs": ours, **peers}


def measure(bench):
    rows, figures = [], {}
    for name, part in (("listed", listed_files), ("images", image_folder)):
        some, figures[name] = part(bench)
        rows += some
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
