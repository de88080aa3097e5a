#!/usr/bin/env python3
"""Makes a WebDataset of photographs: tar shards of samples NAME.jpg, NAME.cls and NAME.json, all different.

The photographs are those in scikit-image's wheel; each sample is a crop of one, turned, mirrored, scaled and coloured
by chance. The same arguments give the same bytes with the same versions of Pillow and webdataset.

Prints "progress FRACTION TEXT" lines. Exit code 3: a package is missing, named on standard error.
"""

import argparse
import importlib.util
import io
import json
import math
import multiprocessing
import os
import random
import sys

EXIT_NO_PACKAGE = 3
PACKAGES = {"torch": "torch", "numpy": "numpy", "PIL": "Pillow", "webdataset": "webdataset", "skimage": "scikit-image"}

# Left out of what the wheel has: drawings, text, and pictures too small or too smooth to stay photographs when scaled.
PHOTOGRAPHS = ["astronaut.png", "chelsea.png", "coffee.png", "grass.png", "gravel.png", "hubble_deep_field.jpg",
               "ihc.png", "motorcycle_left.png", "motorcycle_right.png", "rocket.jpg"]
QUALITY = 95
DENSITY = 0.45  # bytes a pixel at that quality, to start with: measured, 0.35 to 0.55 for most
SIDES = (16, 4096)  # pixels; a sample's bytes are set by its size


def photographs():
    folder = os.path.join(importlib.util.find_spec("skimage").submodule_search_locations[0], "data")
    names = [name for name in PHOTOGRAPHS if os.path.exists(os.path.join(folder, name))]
    return [(name.split(".")[0], os.path.join(folder, name)) for name in names]


def colours(chance):
    """A table for Image.point: gain, gamma and offset for each channel."""
    table = []
    gamma, gain, offset = chance.uniform(0.7, 1.4), chance.uniform(0.8, 1.25), chance.uniform(-20, 20)
    for _ in range(3):
        channel = gain * chance.uniform(0.9, 1.1)
        table += [min(255, max(0, round(255 * channel * (i / 255) ** gamma + offset))) for i in range(256)]
    return table


def crop(image, side, chance):
    """A square of the image by chance, side pixels wide, and where it was."""
    from PIL import Image
    width = chance.uniform(0.35, 0.95) * min(image.size)
    left, top = (chance.uniform(0, length - width) for length in image.size)
    picture = image.resize((side, side), Image.BILINEAR, box=(left, top, left + width, top + width))
    turn = chance.choice([None, Image.FLIP_LEFT_RIGHT, Image.FLIP_TOP_BOTTOM, Image.ROTATE_90, Image.ROTATE_180,
                          Image.ROTATE_270, Image.TRANSPOSE, Image.TRANSVERSE])
    if turn is not None:
        picture = picture.transpose(turn)
    return picture.point(colours(chance)), [round(x, 3) for x in (left, top, width)]


def encode(picture):
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


class Samples:
    """Samples one after the other, each of about the bytes asked for: what the last of its photograph took a pixel is
    what the next is expected to take."""

    def __init__(self, seed, shard):
        from PIL import Image
        self._chance = random.Random(f"{seed} {shard}")
        self._images = [(name, Image.open(path).convert("RGB")) for name, path in photographs()]
        self._density = [DENSITY] * len(self._images)

    def make(self, key, size_bytes, at_least):
        label = self._chance.randrange(len(self._images))
        name, image = self._images[label]
        side = math.sqrt(max(1, size_bytes) / self._density[label]) * self._chance.uniform(0.9, 1.1)
        while True:
            side = round(min(max(side, SIDES[0]), SIDES[1]))
            picture, where = crop(image, side, self._chance)
            jpeg = encode(picture)
            if len(jpeg) >= at_least or side == SIDES[1]:
                break
            side *= 1.2
        self._density[label] += 0.2 * (len(jpeg) / side**2 - self._density[label])
        return {"__key__": key, "jpg": jpeg, "cls": label,
                "json": {"photograph": name, "left_top_width": where, "side": side}}


_made = None  # samples made by all processes, shared; set in each by _start


def _start(made):
    global _made
    _made = made


def make_shard(path, shard, first, last, size_bytes, seed):
    from webdataset import TarWriter
    samples = Samples(seed, shard)
    overhead = 5 * 512  # a sample's three headers and two small files
    with open(path, "wb") as file, TarWriter(file, mtime=0) as tar:
        for i in range(first, last):
            left = size_bytes - file.tell()
            tar.write(samples.make(f"{i:08d}", left / (last - i) - overhead, left if i == last - 1 else 0))
            with _made.get_lock():
                _made.value += 1
    return os.path.getsize(path)


def make(folder, shards, samples, size_bytes, seed, processes, progress):
    """The shards' sizes, in order; together at least size_bytes."""
    made = multiprocessing.Value("Q", 0)
    work = [(os.path.join(folder, f"shard-{i:06d}.tar"), i, samples * i // shards, samples * (i + 1) // shards,
             math.ceil(size_bytes / shards), seed) for i in range(shards)]
    with multiprocessing.Pool(min(processes, shards), _start, (made,)) as pool:
        result = pool.starmap_async(make_shard, work, chunksize=1)
        while not result.ready():
            progress(made.value / samples, f"{made.value} of {samples} samples")
            result.wait(0.25)
        return result.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, metavar="DIR", help="a folder that exists")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--bytes", type=int, default=512 << 20, help="of all shards together, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    if not 1 <= arguments.shards <= arguments.samples:
        parser.error("there must be at least one sample a shard, and a shard")

    missing = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if not missing and not photographs():
        missing = ["scikit-image's photographs"]
    if missing:
        print("missing: " + ", ".join(missing), file=sys.stderr)
        return EXIT_NO_PACKAGE

    def progress(fraction, text):
        print(f"progress {fraction:.4f} {text}", flush=True)

    progress(0, "loading webdataset")
    import webdataset  # noqa: F401  once, before the processes fork
    sizes = make(arguments.out, arguments.shards, arguments.samples, arguments.bytes, arguments.seed,
                 max(1, arguments.processes), progress)
    progress(1, f"{arguments.samples} samples, {sum(sizes) / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
