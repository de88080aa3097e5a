"""Error codes: each failure reaches the reader as the errno that the design names, and touches no sibling."""

import errno
import os

import pytest

from lib.content import MIB, compare, read_all, read_descriptor, read_range
from lib.waiting import until


@pytest.fixture
def tree(store, mount):
    store.put_many({"dir/a": (MIB, 1), "dir/b": (MIB, 2), "top": (MIB, 3)})
    return mount()


def refused(call, *arguments, code):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    assert caught.value.errno == code, errno.errorcode[caught.value.errno]


WRITES = {
    "open-write": lambda d: os.open(d / "a", os.O_WRONLY),
    "open-read-write": lambda d: os.open(d / "a", os.O_RDWR),
    "open-append": lambda d: os.open(d / "a", os.O_WRONLY | os.O_APPEND),
    "open-truncate": lambda d: os.open(d / "a", os.O_RDONLY | os.O_TRUNC),
    "create": lambda d: os.open(d / "new", os.O_CREAT | os.O_WRONLY, 0o600),
    "create-exclusive": lambda d: os.open(d / "new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600),
    "mkdir": lambda d: os.mkdir(d / "new"),
    "rmdir": lambda d: os.rmdir(d),
    "unlink": lambda d: os.unlink(d / "a"),
    "rename": lambda d: os.rename(d / "a", d / "c"),
    "rename-over": lambda d: os.rename(d / "a", d / "b"),
    "chmod": lambda d: os.chmod(d / "a", 0o644),
    "chown": lambda d: os.chown(d / "a", 1, 1),
    "truncate": lambda d: os.truncate(d / "a", 0),
    "utime": lambda d: os.utime(d / "a", (1, 1)),
    "symlink": lambda d: os.symlink("a", d / "new"),
    "link": lambda d: os.link(d / "a", d / "new"),
    "mkfifo": lambda d: os.mkfifo(d / "new"),
    "setxattr": lambda d: os.setxattr(d / "a", "user.x", b"1"),
    "removexattr": lambda d: os.removexattr(d / "a", "user.shardfs.key"),
}


def test_nothing_can_be_written(store, tree):
    for name, call in WRITES.items():
        try:
            refused(call, tree.path / "dir", code=errno.EROFS)
        except BaseException as error:
            raise AssertionError(f"{name}: {error}") from error
    assert sorted(os.listdir(tree.path / "dir")) == ["a", "b"]
    compare(read_all(tree.path / "dir/a"), MIB, 1)
    stats = store.stats()
    assert stats.requests["put"] == stats.requests["delete"] == 0


def test_names_that_are_not_there(tree):
    refused(os.stat, tree.path / "missing", code=errno.ENOENT)
    refused(os.open, tree.path / "dir/missing", os.O_RDONLY, code=errno.ENOENT)
    refused(os.listdir, tree.path / "missing", code=errno.ENOENT)
    refused(os.stat, tree.path / "top" / "below", code=errno.ENOTDIR)
    refused(os.listdir, tree.path / "top", code=errno.ENOTDIR)
    directory = os.open(tree.path / "dir", os.O_RDONLY | os.O_DIRECTORY)
    refused(os.read, directory, 1, code=errno.EISDIR)
    os.close(directory)
    refused(os.stat, tree.path / ("x" * 256), code=errno.ENAMETOOLONG)


def test_forbidden_object(store, tree, passthrough):
    store.fault("status", {"kind": "get", "key": "dir/a"}, status=403, code="AccessDenied", times=-1)
    refused(read_all, tree.path / "dir/a", code=errno.EACCES)
    assert store.stats().key("dir/a").gets <= 4  # the ranges that were wanted at once; none is tried again
    compare(read_all(tree.path / "dir/b"), MIB, 2)
    assert os.stat(tree.path / "dir/a").st_size == MIB
    lines = [line for line in tree.log.splitlines() if "AccessDenied" in line and "dir/a" in line]
    assert len(lines) == 1, lines
    store.clear_faults()
    compare(read_all(tree.path / "dir/a"), MIB, 1)


def test_archived_object(store, mount):
    store.put_generated("cold", MIB, 1, storage_class="GLACIER")
    store.put_generated("back", MIB, 2, storage_class="GLACIER", restore='ongoing-request="false"')
    mounted = mount()
    refused(read_all, mounted.path / "cold", code=errno.EACCES)
    compare(read_all(mounted.path / "back"), MIB, 2)


def test_deleted_after_the_listing(store, mount):
    """ENOENT when it is opened; with bytes of it already read and the rest gone, ESTALE or ENOENT, never end of file."""
    store.put_many({"dir/a": (20 * MIB, 1), "dir/b": (MIB, 2)})
    mounted = mount()
    assert sorted(os.listdir(mounted.path / "dir")) == ["a", "b"]
    os.stat(mounted.path / "dir/a")
    store.remove("dir/a")
    with pytest.raises(OSError) as caught:
        read_all(mounted.path / "dir/a")
    assert caught.value.errno in (errno.ENOENT, errno.ESTALE)

    def open_is_refused():
        try:
            read_all(mounted.path / "dir/a")
        except OSError as error:
            return error.errno == errno.ENOENT
        return False

    until(open_is_refused, "the next open gives ENOENT, long before the listing's time is up", patience_s=10)
    compare(read_all(mounted.path / "dir/b"), MIB, 2)


@pytest.mark.parametrize("kind", ["head", "list", "get"])
def test_busy_store_is_waited_for(store, mount, kind):
    """503 for a while is never an absent file: the call takes longer, that is all."""
    store.put_many({"dir/a": (MIB, 1)})
    mounted = mount()
    fault = store.fault("status", {"kind": kind}, status=503, code="SlowDown", times=6)
    compare(read_all(mounted.path / "dir/a"), MIB, 1)
    assert os.listdir(mounted.path / "dir") == ["a"]
    compare(read_all(mounted.path / "dir/a"), MIB, 1)
    assert store.fired(fault) > 0
    assert "FileNotFound" not in mounted.log


@pytest.mark.parametrize("code,status", [("InternalError", 500), ("RequestTimeout", 400), ("SlowDown", 429)])
def test_passing_errors_of_a_get(store, mount, code, status):
    store.put_generated("a", 9 * MIB, 1)
    mounted = mount()
    fault = store.fault("status", {"kind": "get"}, status=status, code=code, times=3)
    compare(read_all(mounted.path / "a"), 9 * MIB, 1)
    assert store.fired(fault) == 3


def test_store_dies_and_comes_back(store, mount):
    """Paused, as when the network is cut: readers wait; cached files and known names go on."""
    store.put_many({"dir/cached": (MIB, 1), "dir/cold": (MIB, 2)})
    mounted = mount(metadata_ttl="0s")
    compare(read_all(mounted.path / "dir/cached"), MIB, 1)
    mounted.await_cached("dir/cached")
    os.listdir(mounted.path / "dir")
    store.pause()
    try:
        assert os.stat(mounted.path / "dir/cached").st_size == MIB  # what was last known, after a second
        compare(read_all(mounted.path / "dir/cached"), MIB, 1)
        cold = os.open(mounted.path / "dir/cold", os.O_RDONLY)
    finally:
        store.resume()
    compare(read_descriptor(cold), MIB, 2)
    os.close(cold)
    assert mounted.stats()["stale_answers"] > 0


def test_keys_replaced_during_the_mount(store, mount, folder):
    """The credentials file gets new keys; the old ones are refused from then on."""
    store.put_many({"a": (MIB, 1), "b": (MIB, 2)})
    file = folder / "credentials"
    write_keys(file, store.access_key, store.secret_key)
    mounted = mount(env={"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
                    metadata_ttl="0s")
    compare(read_all(mounted.path / "a"), MIB, 1)
    store.credentials("NEWKEY", "new-secret")
    write_keys(file, "NEWKEY", "new-secret")
    store.fault("status", {"access_key": store.access_key}, status=400, code="ExpiredToken", times=-1)
    compare(read_all(mounted.path / "b"), MIB, 2)
    assert sorted(os.listdir(mounted.path)) == ["a", "b"]


def write_keys(file, access_key, secret_key):
    fresh = file.with_suffix(".new")
    fresh.write_text(f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = {secret_key}\n")
    fresh.rename(file)


def test_footer_read_is_cheap(store, mount):
    """What a Parquet reader does first costs about what it touches, not the shard."""
    store.put_generated("a", 1 << 30, 1)
    mounted = mount()
    compare(read_range(mounted.path / "a", (1 << 30) - 8, 1 << 30), 1 << 30, 1, (1 << 30) - 8)
    compare(read_range(mounted.path / "a", (1 << 30) - 65536, 1 << 30), 1 << 30, 1, (1 << 30) - 65536)
    assert store.stats().body_bytes <= 4 * MIB
