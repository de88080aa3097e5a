"""What stores and networks do wrong in the middle of a body: right bytes or an error, never other bytes."""

import errno
import os

import pytest

from lib.content import MIB, compare, pread_all, read_all
from lib.waiting import Child

SIZE, SEED = 20 * MIB + 13, 31
GET = {"kind": "get"}

# Passing: right bytes come about in the end. times=1 unless given.
PASSING = {
    "reset-at-once": dict(action="reset", at_byte=-1, times=3),
    "reset-at-0": dict(action="reset", at_byte=0, times=3),
    "reset-at-1": dict(action="reset", at_byte=1, times=3),
    "reset-in-the-middle": dict(action="reset", at_byte=3 * MIB + 7, times=2),
    "reset-of-every-third": dict(action="reset", at_byte=100_000, times=20, probability=0.33, seed=4),
    "close-in-the-middle": dict(action="close", at_byte=65_537, times=4),
    "short": dict(action="short", at_byte=1000, times=2),
    "short-empty": dict(action="short", at_byte=0, times=2),
    "long": dict(action="long", at_byte=64, times=2),
    "wrong-range": dict(action="wrong_range", at_byte=4096, times=2),
    "whole-object-for-a-range": dict(action="full_200", times=3),
    "no-content-range": dict(action="no_range", times=2),
    "part-labelled-200": dict(action="partial_200", times=3),
    "length-is-no-number": dict(action="bad_length", times=2),
    "html": dict(action="html", times=2),
    "lower-case-headers": dict(action="lower_names", times=-1),
    "slow-start": dict(action="delay", delay_ms=300, times=4),
    "500": dict(action="status", status=500, code="InternalError", times=4),
    "503-retry-after": dict(action="status", status=503, code="SlowDown", retry_after=0, times=4),
}


@pytest.mark.parametrize("fault", PASSING)
def test_passing_fault(store, mount, fault):
    store.put_generated("a", SIZE, SEED)
    store.put_generated("b", MIB, 32)
    mounted = mount()
    options = dict(PASSING[fault])
    id = store.fault(options.pop("action"), {**GET, "key": "a"}, **options)
    compare(read_all(mounted.path / "a"), SIZE, SEED)
    assert store.fired(id) > 0
    compare(read_all(mounted.path / "b"), MIB, 32)
    store.clear_faults()
    mounted.await_cached("a")
    mounted.remount()
    compare(read_all(mounted.path / "a"), SIZE, SEED)  # nothing wrong has entered the cache


# Lasting: the store does nothing else. Right bytes or one of these, and no wrong byte afterwards.
LASTING = {
    "long": (dict(action="long"), {errno.EIO}),
    "wrong-range": (dict(action="wrong_range"), {errno.EIO}),
    "no-content-range": (dict(action="no_range"), {errno.EIO}),
    "html": (dict(action="html"), {errno.EIO}),
    "another-etag": (dict(action="etag"), {errno.ESTALE}),
    "part-labelled-200": (dict(action="partial_200"), {errno.EIO}),
    "whole-object-for-a-range": (dict(action="full_200"), {errno.EIO}),
    "403": (dict(action="status", status=403, code="AccessDenied"), {errno.EACCES}),
    "404": (dict(action="status", status=404, code="NoSuchKey"), {errno.ENOENT, errno.ESTALE}),
}


@pytest.mark.parametrize("fault", LASTING)
def test_lasting_fault(store, mount, fault):
    store.put_generated("a", SIZE, SEED)
    store.put_generated("b", MIB, 32)
    mounted = mount()
    os.listdir(mounted.path)
    options, allowed = LASTING[fault]
    options = dict(options)
    store.fault(options.pop("action"), {**GET, "key": "a"}, times=-1, **options)

    def read():
        try:
            return read_all(mounted.path / "a")
        except OSError as error:
            return error.errno

    # Some give an error only when all tries are used up; the reader may be ended before.
    reader = Child(read)
    compare(read_all(mounted.path / "b"), MIB, 32)
    try:
        found = reader.result(patience_s=20)
    except AssertionError as error:
        if "has not ended" not in str(error):
            raise
        found = errno.EIO
        allowed = allowed | {errno.EIO}
    if isinstance(found, int):
        assert found in allowed, errno.errorcode[found]
    else:
        compare(found, SIZE, SEED)
    store.clear_faults()
    mounted.remount()
    compare(read_all(mounted.path / "a"), SIZE, SEED)


def test_store_takes_few_at_once(store, mount):
    """More than three requests at once are refused: the mount finds that out, and no reader hears of it."""
    size = 192 * MIB
    store.shape(first_byte_ms=5, connection_mbps=40)
    for seed in range(4):
        store.put_generated(f"s{seed}", size // 4, seed)
    refusals = store.fault("status", times=-1, status=503, code="SlowDown", concurrent_above=3)
    mounted = mount()
    for seed in range(4):
        compare(read_all(mounted.path / f"s{seed}"), size // 4, seed)
    # All that were too many at the start, and a few attempts since.
    assert 0 < store.fired(refusals) <= 60
    assert store.stats().body_bytes == size
    assert mounted.stats()["connections_limit"] <= 6


def test_version_changes_between_parts(store, mount):
    """The object is replaced while it streams: old bytes, then ESTALE; never a byte of the new one."""
    size = 64 * MIB
    store.put_generated("a", size, 1)
    store.hold({"kind": "get", "range_begin_at_least": 20 * MIB})  # answered with what is there at the release
    mounted = mount(metadata_ttl="0s")
    fd = os.open(mounted.path / "a", os.O_RDONLY)
    compare(pread_all(fd, 0, MIB), size, 1, 0, MIB)
    store.put_generated("a", size, 2)
    store.release()
    at = MIB
    with pytest.raises(OSError) as caught:
        while at < size:
            found = os.pread(fd, MIB, at)
            assert found
            compare(found, size, 1, at, at + len(found))
            at += len(found)
    assert caught.value.errno == errno.ESTALE and at >= MIB
    os.close(fd)
    compare(read_all(mounted.path / "a"), size, 2)
