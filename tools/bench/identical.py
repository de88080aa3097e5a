#!/usr/bin/env python3
"""Identical: the SHA-256 of every file of three data sets through the mount beside that of the object in the store: cold, warm,
and after a remount, with a cache that holds the set and with one that holds a third of it."""

import hashlib
import random
import shutil
import tempfile
import urllib.request

import support
from support import PIECE, Row

KIB, MIB = 1 << 10, 1 << 20


def data_sets(quick):
    """Name to sizes by key."""
    sizes = random.Random(11)
    shard = (4 if quick else 48) * MIB
    around = [size + more for size in (4 * KIB, 128 * KIB, MIB, 4 * MIB, 16 * MIB) for more in (-1, 0, 1)]
    return {"shards": {f"shard-{i:06}.tar": shard + 777 * i for i in range(4)},
            "images": {f"class-{i % 10:02}/{i:05}.jpg": sizes.randrange(1, 300 * KIB) for i in range(500)},
            "sizes": {f"{size:09}.bin": size for size in [0, 1, *around]}}


def digest_of(file):
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


def digest_at(path):
    with open(path, "rb", buffering=0) as file:
        return digest_of(file)


def compare(bench, store, prefix, wanted, cache_size):
    """How many files were compared, and how many of them differ."""
    cache = tempfile.mkdtemp(prefix="cache-", dir=bench.folder)
    compared = different = 0
    try:
        for passes in (2, 1):  # cold and warm; after a remount
            with bench.mount(store, prefix, "--cache-size", str(cache_size), cache=cache) as mount:
                for _ in range(passes):
                    found = {key: digest_at(mount.path / key) for key in wanted}
                    compared += len(found)
                    different += sum(found[key] != wanted[key] for key in wanted)
    finally:
        shutil.rmtree(cache)
    return compared, different


def measure(bench):
    compared = different = total = 0
    with bench.store(first_byte_ms=0, list_ms=0, connection_mbps=0) as store:
        for number, (name, sizes) in enumerate(data_sets(bench.quick).items()):
            bench.progress(f"{name}: {len(sizes)} files, {sum(sizes.values()) / 1e6:,.0f} MB")
            wanted = {}
            for seed, (key, size) in enumerate(sizes.items()):
                store.put_generated(f"{name}/{key}", size, seed=1000 * number + seed)
                with urllib.request.urlopen(store.endpoint + store.path(f"{name}/{key}")) as answer:
                    wanted[key] = digest_of(answer)
            bytes_of_set = sum(sizes.values())
            for cache_size in (4 * bytes_of_set + 64 * MIB, max(bytes_of_set // 3, 8 * MIB)):
                some, wrong = compare(bench, store, f"{name}/", wanted, cache_size)
                compared, different, total = compared + some, different + wrong, total + 3 * bytes_of_set
    row = Row("files compared by SHA-256: cold, warm, after a remount, with a cache above and below the set's size", f"{compared:,}",
              f"{total / 1e6:,.0f} MB; {different} differ", None, "0 differ", different == 0)
    return [row], {"compared": compared, "different": different, "bytes": total}


if __name__ == "__main__":
    support.main(__doc__, measure)
