"""What is shown beside the bytes: attributes, owners, extended attributes, statfs, and the figures of stats."""

import os
import stat

import pytest

from lib.content import MIB, DataSet, compare, read_all
from lib.mounting import shardfs
from lib.waiting import in_child, until


def test_extended_attributes(store, mount):
    etag = store.put_generated("dir/a", 3 * MIB, 1)
    mounted = mount("dir")
    path = mounted.path / "a"
    names = os.listxattr(path)
    assert {f"user.shardfs.{name}" for name in ("key", "etag", "cached_bytes", "state")} <= set(names)
    assert os.getxattr(path, "user.shardfs.key") == b"dir/a"
    assert os.getxattr(path, "user.shardfs.etag").decode().strip('"') == etag.strip('"')
    assert os.getxattr(path, "user.shardfs.cached_bytes") == b"0"
    compare(read_all(path), 3 * MIB, 1)
    mounted.await_cached("a")
    until(lambda: mounted.state("a") in ("cached", "complete"), "its state says so")
    with pytest.raises(OSError) as caught:
        os.getxattr(path, "user.other")
    assert caught.value.errno == 61  # ENODATA
    with pytest.raises(OSError) as caught:
        os.getxattr(path, "security.capability")
    assert caught.value.errno in (61, 95)
    assert os.getxattr(mounted.path, "user.shardfs.key") == b"dir/"


def test_modes_owners_and_times(store, mount):
    store.put_generated("dir/a", 12345, 1, last_modified=1_600_000_000)
    mounted = mount(uid=1234, gid=2345, file_mode="0440", dir_mode="0550")
    file, directory = os.stat(mounted.path / "dir/a"), os.stat(mounted.path / "dir")
    assert stat.filemode(file.st_mode) == "-r--r-----" and stat.filemode(directory.st_mode) == "dr-xr-x---"
    assert (file.st_uid, file.st_gid, directory.st_uid, directory.st_gid) == (1234, 2345, 1234, 2345)
    assert (file.st_size, file.st_nlink) == (12345, 1) and file.st_mtime == 1_600_000_000
    assert file.st_blocks == (12345 + 511) // 512
    assert file.st_ino != directory.st_ino and file.st_dev == directory.st_dev


def test_defaults_let_everybody_read(store, mount):
    store.put("dir/a", b"x")
    mounted = mount()
    assert stat.filemode(os.stat(mounted.path / "dir/a").st_mode) == "-r--r--r--"
    assert stat.filemode(os.stat(mounted.path / "dir").st_mode) == "dr-xr-xr-x"
    assert stat.filemode(os.stat(mounted.path).st_mode) == "dr-xr-xr-x"


def test_inode_numbers_differ_and_agree(store, mount):
    store.put_many({f"{d}/{i}": b"" for d in range(5) for i in range(100)})
    mounted = mount()
    by_scan = {entry.path: entry.inode() for d in range(5) for entry in os.scandir(mounted.path / str(d))}
    by_stat = {path: os.stat(path).st_ino for path in by_scan}
    assert by_scan == by_stat
    assert len(set(by_stat.values())) == 500


def test_statfs(store, mount):
    mounted = mount()
    found = os.statvfs(mounted.path)
    assert found.f_blocks > 0 and found.f_bfree > 0 and found.f_bavail > 0 and found.f_bsize > 0
    assert found.f_namemax == 255
    assert found.f_flag & os.ST_RDONLY


def as_user(uid, function):
    def run():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        return function()
    return in_child(run)


def test_another_user_reads_a_mount_of_root(store, mount, passthrough):
    store.put_generated("dir/a", MIB, 1)
    mounted = mount(passthrough=passthrough)

    def read():
        assert os.listdir(mounted.path / "dir") == ["a"]
        compare(read_all(mounted.path / "dir/a"), MIB, 1)

    as_user(65534, read)
    mounted.await_cached("dir/a")
    as_user(65534, read)


def test_another_user_is_kept_out(store, mount):
    store.put_generated("dir/a", MIB, 1)
    mounted = mount(file_mode="0400")

    def refused():
        with pytest.raises(PermissionError):
            os.open(mounted.path / "dir/a", os.O_RDONLY)

    as_user(65534, refused)
    alone = mount(allow_other=False)

    def kept_out():
        with pytest.raises(PermissionError):
            os.listdir(alone.path)

    as_user(65534, kept_out)


def test_cache_is_private(store, mount):
    store.put_generated("a", MIB, 1)
    mounted = mount()
    compare(read_all(mounted.path / "a"), MIB, 1)
    mounted.await_cached("a")
    assert stat.S_IMODE(os.stat(mounted.cache).st_mode) == 0o700


FIELDS = """schema source mountpoint version pid uptime_s passthrough passthrough_reason hit_ratio hits hit_bytes misses
miss_bytes partial_hits fetched_bytes read_bytes cache_used_bytes cache_limit_bytes open_files passthrough_opens
daemon_opens requests retries errors received_bytes first_byte_seconds read_seconds stall_seconds parked_reads
memory_used_bytes memory_limit_bytes gauges metrics""".split()


def test_stats_agree_with_the_store(store, mount):
    data = DataSet("train", {f"{i}.tar": 4 * MIB + i for i in range(5)}).put(store)
    mounted = mount(data.prefix, passthrough="off")
    store.reset()
    data.compare_tree(mounted.path)
    seen = store.stats()
    stats = mounted.stats()
    assert set(FIELDS) <= set(stats)
    assert stats["source"] == mounted.source and stats["mountpoint"] == str(mounted.path)
    assert stats["pid"] == mounted.pid
    assert stats["misses"] > 0 and stats["miss_bytes"] > 0
    assert stats["fetched_bytes"]["total"] == seen.body_bytes == data.total_bytes
    fetched = stats["fetched_bytes"]
    assert sum(bytes_ for cause, bytes_ in fetched.items() if cause != "total") == fetched["total"]
    assert stats["read_bytes"] == data.total_bytes
    assert stats["hit_bytes"] + stats["miss_bytes"] + stats["partial_hit_bytes"] >= data.total_bytes
    assert stats["requests"].get("get", 0) == seen.gets
    assert stats["cache_used_bytes"] >= data.total_bytes
    assert 0 <= stats["hit_ratio"] <= 1
    assert stats["daemon_opens"] == 5 and stats["passthrough_opens"] == 0
    assert not stats["passthrough"] and stats["passthrough_reason"]


def test_warm_reads_are_hits(store, mount, passthrough):
    data = DataSet("train", {f"{i}.tar": 4 * MIB + i for i in range(5)}).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    data.compare_tree(mounted.path)
    for name in data.objects:
        mounted.await_cached(name)
    mounted.remount()
    data.compare_tree(mounted.path)
    stats = mounted.stats()
    assert stats["fetched_bytes"]["total"] == 0 and stats["hit_ratio"] == 1
    assert stats["misses"] == 0
    if passthrough == "on":
        assert stats["passthrough_open_bytes"] == data.total_bytes and stats["read_bytes"] == 0
        assert stats["passthrough"] and stats["passthrough_reason"] == ""
    else:
        assert stats["hit_bytes"] == stats["read_bytes"] == data.total_bytes


ZERO_AT_REST = ["open_files", "backing_ids", "parked_reads", "parked_operations", "requests_waiting",
                "connections_active", "cache_reserved_bytes"]  # memory holds what was read ahead, up to its limit


def test_gauges_are_zero_at_rest(store, mount, passthrough):
    data = DataSet("train", {f"{i}.tar": 6 * MIB + i for i in range(8)}).put(store)
    mounted = mount(data.prefix, passthrough=passthrough)
    handles = []
    for name in data.objects:
        handles.append(os.open(mounted.path / name, os.O_RDONLY))
        compare(os.read(handles[-1], 4096), *data.objects[name], end=4096)
    assert mounted.stats()["open_files"] == 8
    for fd in handles:
        os.close(fd)

    def not_zero():
        stats = mounted.stats()
        return {name: stats[name] for name in ZERO_AT_REST if stats[name] != 0}

    until(lambda: not not_zero(), lambda: f"these become zero: {not_zero()}", patience_s=20)


def test_nothing_is_left_at_the_end(store, mount):
    """The daemon itself says at its end if something was not given back."""
    data = DataSet("train", {f"{i}.tar": 6 * MIB + i for i in range(8)}).put(store)
    mounted = mount(data.prefix, cache_size="20M")
    data.compare_tree(mounted.path)
    mounted.umount()
    assert "at the end" not in mounted.log


def test_stats_for_people(store, mount):
    store.put_generated("a", MIB, 1)
    mounted = mount()
    read_all(mounted.path / "a")
    done = shardfs("stats", mounted.path, env=mounted.env)
    assert done.returncode == 0 and not done.stderr
    assert mounted.source in done.stdout and "{" not in done.stdout
    assert 5 <= len(done.stdout.splitlines()) <= 60
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_stats_of_no_mount(store, folder):
    done = shardfs("stats", folder)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and str(folder) in done.stderr
