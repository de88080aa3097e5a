"""The second epoch: nothing is fetched again, not after an unmount, and not after the daemon was killed."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile
import uuid

from lib.content import MIB, DataSet, compare, read_all, read_descriptor, read_range
from lib.mounting import mounts_below
from lib.waiting import in_child, until

SHARDS = {f"shard-{i:06}.tar": 8 * MIB + 1000 * i for i in range(6)}


def read_epoch(data, mounted):
    for name in data.objects:
        data.compare_file(mounted.path, name)


def await_all(data, mounted):
    for name in data.objects:
        mounted.await_cached(name)


def test_second_epoch(store, mount, passthrough):
    data = DataSet("train", SHARDS).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    read_epoch(data, mounted)
    await_all(data, mounted)
    assert store.stats().body_bytes == data.total_bytes
    store.reset()
    before = mounted.stats()
    read_epoch(data, mounted)
    assert store.stats().gets == 0
    after = mounted.stats()
    opens = after["passthrough_opens"] - before["passthrough_opens"]
    assert opens == (len(data.objects) if passthrough == "on" else 0)
    assert after["passthrough"] == (passthrough == "on")


def test_after_unmount(store, mount, passthrough):
    data = DataSet("train", SHARDS).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    read_epoch(data, mounted)
    await_all(data, mounted)
    store.reset()
    mounted.remount()
    read_epoch(data, mounted)
    stats = mounted.stats()
    assert store.stats().gets == 0
    assert stats["passthrough_opens"] == (len(data.objects) if passthrough == "on" else 0)
    if passthrough == "off":
        assert stats["hits"] > 0 and stats["misses"] == 0
        assert stats["hit_bytes"] >= data.total_bytes


def test_part_of_an_object_is_used_after_unmount(store, mount):
    """Also when it is unmounted while the rest is under way."""
    size, seed = 96 * MIB, 4
    store.put_generated("a", size, seed)
    store.hold({"kind": "get", "range_begin_at_least": 48 * MIB})
    mounted = mount(passthrough="off")
    compare(read_range(mounted.path / "a", 0, 20 * MIB), size, seed, 0, 20 * MIB)
    until(lambda: mounted.cached_bytes("a") >= 20 * MIB, "what was read is cached")
    mounted.umount()
    store.release()
    mounted.start()
    assert 20 * MIB <= mounted.cached_bytes("a") < size
    store.reset()
    compare(read_range(mounted.path / "a", 0, 20 * MIB), size, seed, 0, 20 * MIB)
    assert all(begin >= 20 * MIB for begin, _ in store.stats().key("a").ranges)
    compare(read_all(mounted.path / "a"), size, seed)


def test_after_the_daemon_was_killed(store, mount, passthrough):
    data = DataSet("train", SHARDS).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    read_epoch(data, mounted)
    await_all(data, mounted)
    mounted.kill()
    assert mounts_below(mounted.path)  # the dead mount is in the way
    store.reset()
    mounted.start()
    assert "remains" in mounted.started.stderr
    assert len(mounts_below(mounted.path)) == 1
    read_epoch(data, mounted)
    assert store.stats().gets == 0


def test_dead_mount_that_is_in_use(store, mount):
    data = DataSet("train", SHARDS).put(store)
    mounted = mount(data.prefix)
    name = next(iter(data.objects))
    fd = os.open(mounted.path / name, os.O_RDONLY)
    compare(os.read(fd, 1000), *data.objects[name], end=1000)
    mounted.kill()
    mounted.start()
    read_epoch(data, mounted)
    os.close(fd)


def test_killed_in_the_middle(store, mount):
    """Whatever the kill cut off is fetched again or thrown away; nothing of it is taken for the object."""
    size, seed = 48 * MIB, 11
    store.put_generated("a", size, seed)
    store.shape(connection_mbps=20)
    mounted = mount()
    for kill_at in (1 * MIB, 9 * MIB, 30 * MIB):
        fd = os.open(mounted.path / "a", os.O_RDONLY)
        compare(os.pread(fd, 4096, kill_at), size, seed, kill_at, kill_at + 4096)
        mounted.kill()
        os.close(fd)
        mounted.start()
    store.shape(connection_mbps=0)
    compare(read_all(mounted.path / "a"), size, seed)
    mounted.remount()
    compare(read_all(mounted.path / "a"), size, seed)
    kinds = {path.suffix for path in pathlib.Path(mounted.cache).rglob("*") if path.is_file()}
    assert ".tmp" not in kinds


def test_open_passthrough_file_survives_the_daemon(store, mount):
    size, seed = 9 * MIB, 12
    store.put_generated("a", size, seed)
    mounted = mount(passthrough="on")
    compare(read_all(mounted.path / "a"), size, seed)
    mounted.await_cached("a")
    until(lambda: open_is_passthrough(mounted), "an open is answered by the kernel")
    fd = os.open(mounted.path / "a", os.O_RDONLY)
    mounted.kill()
    compare(read_descriptor(fd), size, seed)
    os.close(fd)


def open_is_passthrough(mounted):
    before = mounted.stats()["passthrough_opens"]
    os.close(os.open(mounted.path / "a", os.O_RDONLY))
    return mounted.stats()["passthrough_opens"] > before


def test_cache_folder_removed_under_the_mount(store, mount, passthrough):
    data = DataSet("train", SHARDS).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    names = list(data.objects)
    for name in names[:3]:
        data.compare_file(mounted.path, name)
    shutil.rmtree(mounted.cache)
    read_epoch(data, mounted)
    mounted.remount()
    read_epoch(data, mounted)


def after_a_restart_of_the_machine(function):
    """Runs the function where the kernel names another boot."""
    def run():
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(0x20000) == 0  # CLONE_NEWNS
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"{uuid.uuid4()}\n")
            file.flush()
            subprocess.run(["mount", "--bind", file.name, "/proc/sys/kernel/random/boot_id"], check=True)
            return function()
    return in_child(run)


def test_flipped_byte_in_the_cache(store, mount, passthrough):
    """After a restart each block is checked before it is handed out, and by the kernel only when all were."""
    size, seed = 8 * MIB, 13
    store.put_generated("a", size, seed)
    mounted = mount(passthrough=passthrough)
    compare(read_all(mounted.path / "a"), size, seed)
    mounted.await_cached("a")
    mounted.umount()
    file = next(path for path in mounted.cache.rglob("*") if path.is_file() and path.stat().st_size == size)
    with open(file, "r+b") as opened:
        opened.seek(3 * MIB + 5)
        byte = opened.read(1)
        opened.seek(3 * MIB + 5)
        opened.write(bytes([byte[0] ^ 1]))
    store.reset()

    def read():
        mounted.start()
        compare(read_all(mounted.path / "a"), size, seed)
        assert mounted.stats()["bad_blocks"] == 1
        compare(read_all(mounted.path / "a"), size, seed)
        mounted.umount()

    after_a_restart_of_the_machine(read)
    assert 0 < store.stats().body_bytes <= size + 2 * MIB  # the kernel may have had the file: it left as a whole
