"""Routes and versions: handles of one name that differ in how they get their bytes, or in which object they mean."""

import errno
import mmap
import os

import pytest

from lib.content import MIB, compare, pread_all, read_all, read_descriptor, whole
from lib.waiting import Child, in_child, until

SIZE = 12 * MIB + 5


def open_file(path):
    return os.open(path, os.O_RDONLY)


def test_cached_and_passthrough_handle_of_one_name(store, mount):
    store.put_generated("a", SIZE, 1)
    mounted = mount(passthrough="on")
    path = mounted.path / "a"
    cold = open_file(path)
    compare(read_descriptor(cold), SIZE, 1)
    mounted.await_cached("a")
    assert mounted.stats()["passthrough_opens"] == 0
    inode = os.fstat(cold).st_ino

    def opens_passthrough():
        fd = open_file(path)
        if mounted.stats()["passthrough_opens"] > 0:
            return [fd]
        os.close(fd)
        return None

    [warm] = until(opens_passthrough, "a new open is passthrough although the old handle is there")
    assert mounted.stats()["backing_ids"] == 1
    assert os.fstat(warm).st_ino == os.stat(path).st_ino == inode
    for fd in (cold, warm, cold):
        compare(pread_all(fd, 0, SIZE), SIZE, 1)
    in_child(lambda: compare_mapping(cold, 1))
    in_child(lambda: compare_mapping(warm, 1))
    another = open_file(path)
    compare(pread_all(another, MIB, 2 * MIB), SIZE, 1, MIB, 2 * MIB)
    assert mounted.stats()["backing_ids"] == 1
    for fd in (cold, warm, another):
        os.close(fd)
    until(lambda: mounted.stats()["open_files"] == 0, "all handles are released")
    assert mounted.stats()["backing_ids"] == 0
    assert store.stats().body_bytes == SIZE


def compare_mapping(fd, seed):
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:
        compare(mapped[:], SIZE, seed)


def test_many_opens_while_it_becomes_complete(store, mount, passthrough):
    store.put_generated("a", SIZE, 1)
    store.shape(connection_mbps=30)
    mounted = mount(passthrough=passthrough)
    path = mounted.path / "a"
    handles = []
    reader = Child(lambda: compare(read_all(path), SIZE, 1))
    while not (mounted.cached_bytes("a") == SIZE and len(handles) > 20):
        handles.append(open_file(path))
        begin = len(handles) * 65_536 % SIZE
        compare(os.pread(handles[-1], 4096, begin), SIZE, 1, begin, begin + 4096)
    reader.result()
    for fd in handles:
        compare(os.pread(fd, 65536, SIZE - 65536), SIZE, 1, SIZE - 65536)
        os.close(fd)
    until(lambda: mounted.stats()["open_files"] == 0, "all handles are released")
    assert mounted.stats()["backing_ids"] == 0


@pytest.mark.parametrize("same_size", [True, False], ids=["same-size", "other-size"])
@pytest.mark.parametrize("read_before", [SIZE, MIB, 0], ids=["all-read", "part-read", "nothing-read"])
def test_overwritten_under_an_open_handle(store, mount, passthrough, same_size, read_before):
    """All old bytes or ESTALE on the old handle; the next open sees the new object."""
    new_size = SIZE if same_size else SIZE + 4097
    store.put_generated("a", SIZE, 1)
    mounted = mount(passthrough=passthrough, metadata_ttl="0s")
    path = mounted.path / "a"
    old = open_file(path)
    compare(pread_all(old, 0, read_before), SIZE, 1, 0, read_before)
    store.put_generated("a", new_size, 2)
    new = open_until_version(path, 2, new_size)
    compare(read_descriptor(new), new_size, 2)
    old_or_stale(old, 1)
    if read_before == SIZE:
        compare(pread_all(old, 0, SIZE), SIZE, 1)  # what was fetched once stays readable
    compare(pread_all(new, 0, new_size), new_size, 2)
    assert os.fstat(new).st_size == os.stat(path).st_size == new_size
    os.close(old)
    os.close(new)
    compare(read_all(path), new_size, 2)


def open_until_version(path, seed, size):
    """With metadata-ttl 0 the next open is of the new version."""
    fd = open_file(path)
    assert os.fstat(fd).st_size == size
    compare(os.pread(fd, 4096, 0), size, seed, 0, 4096)
    return fd


def old_or_stale(fd, seed, step=MIB):
    """Every piece of a handle whose object was replaced is either right or refused."""
    for begin in range(0, SIZE, step):
        try:
            found = os.pread(fd, step, begin)
        except OSError as error:
            assert error.errno == errno.ESTALE
            continue
        wanted = min(step, SIZE - begin)
        if len(found) < wanted:  # the error of the rest comes with the next read
            with pytest.raises(OSError) as caught:
                assert os.pread(fd, 1, begin + len(found)) != b""
            assert caught.value.errno == errno.ESTALE
        compare(found, SIZE, seed, begin, begin + len(found))


def test_overwritten_under_a_mapping(store, mount, passthrough):
    store.put_generated("a", SIZE, 1)
    mounted = mount(passthrough=passthrough, metadata_ttl="0s")
    path = mounted.path / "a"
    compare(read_all(path), SIZE, 1)
    mounted.await_cached("a")

    def map_and_overwrite():
        with open(path, "rb", buffering=0) as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        half = SIZE // 2
        compare(mapped[:half], SIZE, 1, 0, half)
        store.put_generated("a", SIZE, 2)
        compare(read_all(path), SIZE, 2)
        compare(mapped[:], SIZE, 1)  # all of it was cached
        mapped.close()

    in_child(map_and_overwrite)


def test_new_version_is_seen_after_the_ttl(store, mount, passthrough):
    store.put_generated("a", SIZE, 1)
    mounted = mount(passthrough=passthrough, metadata_ttl="500ms")
    path = mounted.path / "a"
    compare(read_all(path), SIZE, 1)
    store.put_generated("a", MIB, 2)
    until(lambda: os.stat(path).st_size == MIB, "the new version shows")
    compare(read_all(path), MIB, 2)


def test_immutable_set_is_not_asked_again(store, mount):
    store.put_generated("a", MIB, 1)
    mounted = mount(metadata_ttl="inf")
    path = mounted.path / "a"
    compare(read_all(path), MIB, 1)
    store.reset()
    for _ in range(50):
        os.stat(path)
        compare(read_all(path), MIB, 1)
    stats = store.stats()
    assert stats.requests["head"] + stats.requests["list"] + stats.requests["get"] == 0


def test_version_is_noticed_by_a_get_within_the_ttl(store, mount):
    """The old handle is refused at its first GET of the new object; the next open is right, long before the ttl."""
    size = 64 * MIB
    store.put_generated("a", size, 1)
    store.hold({"kind": "get", "range_begin_at_least": 20 * MIB})  # answered with what is there at the release
    mounted = mount(metadata_ttl="1h")
    path = mounted.path / "a"
    old = open_file(path)
    compare(os.pread(old, 4096, 0), size, 1, 0, 4096)
    store.put_generated("a", size, 2)
    store.release()
    with pytest.raises(OSError) as caught:
        for begin in range(0, size, MIB):
            compare(os.pread(old, 4096, begin), size, 1, begin, begin + 4096)
    assert caught.value.errno == errno.ESTALE

    def opens_new():
        fd = open_file(path)
        try:
            return os.pread(fd, 64, 0) == whole(size, 2)[:64]
        except OSError as error:
            assert error.errno == errno.ESTALE
            return False
        finally:
            os.close(fd)

    until(opens_new, "the next open sees the new version", patience_s=10)
    compare(read_all(path), size, 2)
    with pytest.raises(OSError) as caught:  # and the old handle stays of the old version
        compare(os.pread(old, MIB, size - MIB), size, 1, size - MIB)
    assert caught.value.errno == errno.ESTALE
    os.close(old)


def test_deleted_object(store, mount, passthrough):
    store.put_generated("dir/a", MIB, 1)
    store.put_generated("dir/b", MIB, 2)
    mounted = mount(passthrough=passthrough, metadata_ttl="300ms", negative_ttl="0s")
    path = mounted.path / "dir" / "a"
    compare(read_all(path), MIB, 1)
    mounted.await_cached("dir/a")
    held = open_file(path)
    store.remove("dir/a")

    def is_gone():
        try:
            os.close(open_file(path))
        except FileNotFoundError:
            return True
        return False

    until(is_gone, "an open of the deleted object gives ENOENT")
    until(lambda: os.listdir(mounted.path / "dir") == ["b"], "the name leaves the listing")
    compare(pread_all(held, 0, MIB), MIB, 1)  # all its bytes are cached
    os.close(held)
    compare(read_all(mounted.path / "dir" / "b"), MIB, 2)
