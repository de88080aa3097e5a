#!/usr/bin/env python3
"""Reads the tar shards in a folder as a training job does, with webdataset and a PyTorch DataLoader, and says how long
it waited for its input.

What reads is what a user would write, and knows nothing of the file system below. Each sample's picture is touched
whole (its CRC-32 is computed); --decode makes it a tensor of 224 x 224 pixels, too, which takes so much longer on a
machine with few processors that it hides the input. A training step takes no time, or --step-ms.

Writes a list of one object an epoch: samples, bytes (of the shards), batches, wall_s, time_to_first_batch_s,
mean_input_wait_s (a batch), input_wait_fraction (of wall_s), and checksum (equal for equal samples in any order).
Exit code 3: a package is missing, named on standard error.
"""

import argparse
import glob
import json
import os
import sys
import time
import zlib

EXIT_NO_PACKAGE = 3

try:
    import torch
    import webdataset
except ImportError as error:
    print(f"missing: {error.name}", file=sys.stderr)
    sys.exit(EXIT_NO_PACKAGE)

PIXELS = 224


def touch(jpeg):
    return zlib.crc32(jpeg), len(jpeg)


def touch_and_decode(jpeg):
    import io
    import numpy
    from PIL import Image
    image = Image.open(io.BytesIO(jpeg))
    image.draft("RGB", (PIXELS, PIXELS))
    image = image.convert("RGB").resize((PIXELS, PIXELS))
    return (*touch(jpeg), torch.from_numpy(numpy.asarray(image).copy()))


def loader(shards, workers, batch_size, decode):
    dataset = (webdataset.WebDataset(shards, shardshuffle=100, empty_check=False)
               .decode()
               .to_tuple("jpg", "cls")
               .map_tuple(touch_and_decode if decode else touch, int))
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=workers)


class Progress:
    """A line on standard output for each tenth of a second in which something came."""

    def __init__(self, total_bytes):
        self._total = max(1, total_bytes)
        self._bytes = 0
        self._samples = 0
        self._shown = 0.0

    def add(self, samples, size_bytes):
        self._samples += samples
        self._bytes += size_bytes
        now = time.monotonic()
        if now - self._shown >= 0.1:
            self._shown = now
            print(f"progress {min(1.0, self._bytes / self._total):.4f} {self._samples} samples", flush=True)


def epoch(batches, step_s, progress):
    """One pass over the batches: its record, without the bytes."""
    waits, samples, checksum, first = [], 0, 0, None
    start = asked = time.perf_counter()
    for (crcs, lengths, *_), _ in batches:
        got = time.perf_counter()
        waits.append(got - asked)
        first = first or got - start
        samples += len(crcs)
        checksum += sum(crcs.tolist())
        progress.add(len(crcs), int(lengths.sum()))
        if step_s:
            time.sleep(step_s)
        asked = time.perf_counter()
    end = time.perf_counter()
    waited = sum(waits) + end - asked
    return {"samples": samples, "batches": len(waits), "wall_s": end - start, "time_to_first_batch_s": first or 0.0,
            "mean_input_wait_s": waited / max(1, len(waits)), "input_wait_fraction": waited / (end - start),
            "checksum": checksum}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--path", required=True, metavar="DIR", help="the folder of the *.tar")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--step-ms", type=float, default=0)
    arguments = parser.parse_args()

    shards = sorted(glob.glob(os.path.join(glob.escape(arguments.path), "*.tar")))
    if not shards:
        print(f"no shards in {arguments.path}", file=sys.stderr)
        return 1
    size_bytes = sum(os.path.getsize(shard) for shard in shards)
    batches = loader(shards, arguments.workers, arguments.batch_size, arguments.decode)
    progress = Progress(size_bytes * arguments.epochs)
    records = [{**epoch(batches, arguments.step_ms / 1e3, progress), "bytes": size_bytes}
               for _ in range(arguments.epochs)]
    with open(arguments.out, "w") as file:
        json.dump(records, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
