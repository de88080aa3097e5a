"""Content: data sets of generated objects, and how what was read is compared with them, byte for byte.

An object is told by (size, seed); its bytes are teststore.generated(seed, 0, size), here and in the store.
"""

import functools
import os
import zlib

from lib.teststore import generated

MIB = 1 << 20


@functools.lru_cache(maxsize=128)
def whole(size, seed):
    return generated(seed, 0, size)


def compare(found, size, seed, begin=0, end=None, what=""):
    """Asserts that `found` is the range [begin, end) of that object, and says where it differs first."""
    end = size if end is None else min(end, size)
    wanted = whole(size, seed)[begin:end] if size <= 64 * MIB else generated(seed, begin, end)
    if found == wanted:
        return
    assert len(found) == len(wanted), f"{what}: {len(found)} bytes of [{begin}, {end}), not {len(wanted)}"
    first = next(i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1])
    wrong = sum(a != b for a, b in zip(found[first:first + 4096], wanted[first:first + 4096]))
    raise AssertionError(f"{what}: wrong bytes from {begin + first} on ({wrong} of the next 4096), "
                         f"found {found[first:first + 16].hex()}, not {wanted[first:first + 16].hex()}")


def read_all(path, step=MIB):
    """The whole file by read(2), without Python's buffering."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_descriptor(fd, step)
    finally:
        os.close(fd)


def read_descriptor(fd, step=MIB):
    parts = []
    while part := os.read(fd, step):
        parts.append(part)
    return b"".join(parts)


def read_range(path, begin, end):
    fd = os.open(path, os.O_RDONLY)
    try:
        return pread_all(fd, begin, end)
    finally:
        os.close(fd)


def pread_all(fd, begin, end):
    parts = []
    while begin < end and (part := os.pread(fd, end - begin, begin)):
        parts.append(part)
        begin += len(part)
    return b"".join(parts)


class DataSet:
    """Keys below one prefix, each with (size, seed) of its generated content."""

    def __init__(self, name, sizes):
        """sizes: a mapping from key, relative to the prefix, to size."""
        self.prefix = name + "/"
        self.objects = {key: (size, zlib.crc32(os.fsencode(key)) + 1) for key, size in sizes.items()}

    @property
    def total_bytes(self):
        return sum(size for size, _ in self.objects.values())

    def put(self, store):
        store.put_many({self.key(name): value for name, value in self.objects.items()})
        for value in self.objects.values():
            whole(*value)  # made here, not in each of the processes that a test forks
        return self

    def key(self, name):
        return os.fsencode(self.prefix) + os.fsencode(name)

    def compare_file(self, root, name):
        compare(read_all(os.path.join(os.fsencode(root), os.fsencode(name))), *self.objects[name], what=repr(name))

    def compare_tree(self, root):
        """Every name is there, no other is, and every byte is right."""
        found = {}
        for folder, _, files in os.walk(os.fsencode(root), onerror=_raise):
            for file in files:
                path = os.path.join(folder, file)
                found[os.path.relpath(path, os.fsencode(root))] = os.lstat(path).st_size
        assert found == {os.fsencode(name): size for name, (size, _) in self.objects.items()}
        for name in self.objects:
            self.compare_file(root, name)


def _raise(error):
    raise error


def sizes_set():
    sizes = [0, 1, 4095, 4096, MIB - 1, MIB, MIB + 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB + 13]
    return DataSet("sizes", {f"{size}.bin": size for size in sizes})


def names_set():
    names = ["with space", "with%20space", "plus+plus", "+lead", "at@x", "hash#x", "q?x", "a&b=c", "100%", "unicode-ü",
             "日本語", "quote\"'`", "semi;colon", "tab\tx", "back\\slash", "~tilde", "star*", "[brackets]", "<angle>",
             ".hidden", "...", "x" * 255, b"\xff\xfe latin".decode("utf-8", "surrogateescape"),
             b"caf\xe9".decode("utf-8", "surrogateescape"), "control\x01x", "control\x02x", "line\nend",
             "e\u0301", "\u00e9", "dir with space/ü/+/x y", "99%/%2F", "UPPER", "upper"]
    return DataSet("odd names/ü+%", {name: 1000 + i for i, name in enumerate(names)})


def nested_set():
    sizes = {}
    for a in range(3):
        for b in range(4):
            for c in range(5):
                sizes[f"class-{a}/group-{b}/{c:04}.jpg"] = 10_000 + 137 * (a + 7 * b + 31 * c)
    sizes["/".join(f"d{i}" for i in range(40)) + "/deep.bin"] = 70_001
    sizes["class-0/shard-000000.tar"] = 3 * MIB + 5
    return DataSet("nested", sizes)
