"""Parked reads: with two FUSE workers and hundreds of unanswered misses everything else answers, and each wait ends."""

import errno
import os
import signal
import subprocess

import pytest

from lib.content import MIB, compare, pread_all, read_all
from lib.mounting import gone, mounts_below, shardfs
from lib.waiting import Child, Together, in_child, until

PARKED = 200


def put_objects(store, count=PARKED, size=100_000):
    store.put_many({f"cold/{i:03}": (size, i + 1) for i in range(count)})
    store.put_many({"warm": (MIB, 9999)})


def test_everything_else_answers(store, mount, passthrough):
    put_objects(store)
    mounted = mount(fuse_threads=2, passthrough=passthrough)
    compare(read_all(mounted.path / "warm"), MIB, 9999)
    mounted.await_cached("warm")
    names = os.listdir(mounted.path / "cold")
    store.hold({"kind": "get"})
    readers = Together(*[lambda i=i: compare(read_all(mounted.path / f"cold/{i:03}"), 100_000, i + 1)
                         for i in range(PARKED)])
    until(lambda: mounted.stats()["parked_reads"] >= PARKED, "all readers are parked")

    def others():
        assert os.stat(mounted.path / "cold/007").st_size == 100_000
        assert sorted(os.listdir(mounted.path / "cold")) == sorted(names)
        assert os.listdir(mounted.path)
        assert os.statvfs(mounted.path).f_blocks > 0
        compare(read_all(mounted.path / "warm"), MIB, 9999)
        with pytest.raises(FileNotFoundError):
            os.stat(mounted.path / "missing")

    in_child(others, patience_s=30)
    assert readers.running() == PARKED
    store.release()
    readers.join()
    until(lambda: mounted.stats()["parked_reads"] == 0, "nothing is parked any more")


def test_hit_that_the_kernel_has_not_kept(store, mount):
    """A hit through the daemon, with the kernel's page cache dropped."""
    put_objects(store)
    mounted = mount(fuse_threads=2, passthrough="off")
    compare(read_all(mounted.path / "warm"), MIB, 9999)
    mounted.await_cached("warm")
    mounted.remount()
    os.listdir(mounted.path / "cold")
    store.hold({"kind": "get"})
    readers = Together(*[lambda i=i: compare(read_all(mounted.path / f"cold/{i:03}"), 100_000, i + 1)
                         for i in range(PARKED)])
    until(lambda: mounted.stats()["parked_reads"] >= PARKED, "all readers are parked")
    in_child(lambda: compare(read_all(mounted.path / "warm"), MIB, 9999), patience_s=30)
    store.release()
    readers.join()


@pytest.mark.parametrize("what", ["read", "mmap"])
def test_killed_reader_ends_at_once(store, mount, what):
    put_objects(store, 1)
    mounted = mount(fuse_threads=2)
    path = mounted.path / "cold/000"
    os.listdir(path.parent)  # names are known from here on; a stat alone would start on the first bytes
    store.hold({"kind": "get"})

    def read():
        if what == "read":
            return read_all(path)
        import mmap
        with open(path, "rb", buffering=0) as file:
            return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:]

    reader = Child(read)
    until(lambda: mounted.stats()["parked_reads"] >= 1, "the reader is parked")
    os.kill(reader.pid, signal.SIGKILL)
    [status] = reader.await_end(patience_s=10)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    store.release()
    compare(read_all(path), 100_000, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_reader_without_a_handler_ends_by_a_signal(store, mount, number):
    put_objects(store, 1)
    mounted = mount()
    store.hold({"kind": "get"})
    reader = subprocess.Popen(["cat", str(mounted.path / "cold/000")], stdout=subprocess.DEVNULL,
                              preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    until(lambda: mounted.stats()["parked_reads"] >= 1, "the reader is parked")
    reader.send_signal(number)
    assert reader.wait(timeout=10) == -number
    store.release()


@pytest.mark.parametrize("call", ["open", "stat", "listdir"])
def test_interrupted_metadata(store, mount, call):
    """A signal with a handler: EINTR, or the call ends by itself; it never stays."""
    store.put("dir/a", b"x")
    mounted = mount()
    store.hold({"kind": "head"})
    store.hold({"kind": "list"})

    class Stopped(Exception):
        pass

    def run():
        def stop(*_):
            raise Stopped
        signal.signal(signal.SIGINT, stop)
        try:
            {"open": lambda: os.open(mounted.path / "dir/new/a", os.O_RDONLY),
             "stat": lambda: os.stat(mounted.path / "dir/a"), "listdir": lambda: os.listdir(mounted.path / "dir")}[call]()
        except Stopped:
            return "stopped"
        return "answered"

    caller = Child(run)
    until(lambda: store.waiting() > 0, "the store is asked")
    until(lambda: mounted.stats()["parked_operations"] > 0, "the operation is parked")
    os.kill(caller.pid, signal.SIGINT)
    assert caller.result(patience_s=10) == "stopped"
    store.release()
    assert os.listdir(mounted.path / "dir") == ["a"]


def test_umount_while_reads_are_parked(store, mount):
    """Busy: it says who holds it. Lazily: every reader gets an answer, and nothing is left."""
    put_objects(store, 20)
    mounted = mount(fuse_threads=2)
    store.hold({"kind": "get"})
    results = []

    def read(i):
        try:
            return read_all(mounted.path / f"cold/{i:03}")
        except OSError as error:
            return error.errno

    readers = [Child(lambda i=i: read(i)) for i in range(20)]
    until(lambda: mounted.stats()["parked_reads"] >= 20, "all readers are parked")
    refused = shardfs("umount", mounted.path, env=mounted.env)
    assert refused.returncode == 1
    assert "cold/0" in refused.stderr and str(readers[0].pid) in refused.stderr
    assert mounts_below(mounted.path)
    for reader in readers[:10]:
        os.kill(reader.pid, signal.SIGKILL)
        reader.await_end(patience_s=10)
    lazily = shardfs("umount", "--lazy", mounted.path, env=mounted.env)
    assert lazily.returncode == 0
    assert not mounts_below(mounted.path)
    store.release()
    results = [reader.result() for reader in readers[10:]]
    for i, result in enumerate(results):
        if not isinstance(result, int):
            compare(result, 100_000, 11 + i)
    until(lambda: gone(mounted.pid), "the daemon ends when the last file is closed")


def test_daemon_told_to_end_while_reads_are_parked(store, mount):
    """SIGTERM answers all that wait with an error, and nothing is left."""
    put_objects(store, 20)
    mounted = mount(fuse_threads=2)
    store.hold({"kind": "get"})

    def read(i):
        try:
            return read_all(mounted.path / f"cold/{i:03}")
        except OSError as error:
            return error.errno

    readers = [Child(lambda i=i: read(i)) for i in range(20)]
    until(lambda: mounted.stats()["parked_reads"] >= 20, "all readers are parked")
    os.kill(mounted.pid, signal.SIGTERM)
    assert {reader.result(patience_s=20) for reader in readers} <= {errno.EIO, errno.ENOTCONN, errno.ECONNABORTED}
    until(lambda: gone(mounted.pid), "the daemon ends")
    until(lambda: not mounts_below(mounted.path), "the mount has gone")


def test_several_readers_of_one_parked_block(store, mount):
    put_objects(store, 1)
    mounted = mount(fuse_threads=2)
    store.hold({"kind": "get"})
    readers = Together(*[lambda: compare(read_all(mounted.path / "cold/000"), 100_000, 1) for _ in range(30)])
    until(lambda: mounted.stats()["parked_reads"] >= 1, "a read is parked")
    store.release()
    readers.join()
    assert store.stats().key("cold/000").gets == 1


def test_cancelled_reader_of_a_shared_descriptor(store, mount):
    """One of two that wait for the same bytes is killed; the other gets them."""
    put_objects(store, 1)
    mounted = mount(fuse_threads=2)
    store.hold({"kind": "get"})
    fd = os.open(mounted.path / "cold/000", os.O_RDONLY)
    first, second = (Child(lambda: pread_all(fd, 0, 100_000)) for _ in range(2))
    until(lambda: mounted.stats()["parked_reads"] >= 1, "they are parked")
    os.kill(first.pid, signal.SIGKILL)
    first.await_end(patience_s=10)
    store.release()
    compare(second.result(), 100_000, 1)
    os.close(fd)
