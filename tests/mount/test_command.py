"""The command line: the detached daemon, what a bad start says and leaves, and how a mount ends."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import daemons, environment, gone, mounts_below, program, shardfs
from lib.teststore import TestStore
from lib.waiting import Together, until


def test_command_substitution_returns(store, mount):
    """Whoever waits for the end of the command's output must not wait for the daemon."""
    store.put("a", b"bytes")
    mounted = mount(start=False)
    held = os.open(mounted.path.parent, os.O_RDONLY)
    os.set_inheritable(held, True)
    script = 'out=$("$@" 2>&1); code=$?; echo "code $code, said: $out"'
    done = subprocess.run(["bash", "-c", script, "bash", program(), *mounted.arguments()], env=mounted.env,
                          capture_output=True, text=True, timeout=60, close_fds=False, stdin=subprocess.PIPE)
    os.close(held)
    assert done.stdout == "code 0, said: \n", done
    mounted.pid = mounted.stats()["pid"]
    assert (mounted.path / "a").read_bytes() == b"bytes"
    descriptors = {int(fd): os.readlink(f"/proc/{mounted.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{mounted.pid}/fd")}
    assert descriptors[0] == descriptors[1].replace(mounted.options["--log-file"].__str__(), "/dev/null") == "/dev/null"
    assert descriptors[2] == str(mounted.options["--log-file"])
    assert str(mounted.path.parent) not in descriptors.values()
    ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")}
    assert not {name for name in descriptors.values() if name.startswith("pipe:")} & ours
    assert os.readlink(f"/proc/{mounted.pid}/cwd") == "/"
    status = pathlib.Path(f"/proc/{mounted.pid}/stat").read_text().rpartition(")")[2].split()
    assert status[3] == str(mounted.pid)  # a session of its own


def test_version_and_help():
    done = shardfs("version")
    assert done.returncode == 0 and re.search(r"\d+\.\d+\.\d+", done.stdout)
    for arguments in (["--help"], ["mount", "--help"], ["umount", "--help"], ["stats", "--help"],
                      ["hint", "--help"]):
        done = shardfs(*arguments)
        assert done.returncode == 0 and "Examples:" in done.stdout and not done.stderr


@pytest.mark.parametrize("arguments", [[], ["moutn"], ["mount"], ["mount", "s3://bucket"], ["mount", "bucket", "/mnt"],
                                       ["mount", "s3://", "/mnt"], ["stats", "--jsn"]], ids=" ".join)
def test_wrong_usage(arguments):
    done = shardfs(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and not done.stdout


def one_line(done, *named):
    assert done.returncode not in (0, None)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    for name in named:
        assert str(name) in lines[0], lines[0]


def fails_within(mounted, *named, seconds=15):
    begun = time.monotonic()
    done = shardfs(*mounted.arguments(), env=mounted.env)
    assert time.monotonic() - begun < seconds
    one_line(done, *named)
    return done


@pytest.mark.parametrize("option,value", [
    ("cache_size", "12 elephants"), ("cache_size", "-5"), ("cache_size", ""), ("cache_size", "120%"),
    ("cache_size", "99999999999999999999T"), ("cache_min_free", "x"), ("memory_limit", "1"), ("memory_limit", "lots"),
    ("connections", "0"), ("connections", "many"), ("metadata_ttl", "soon"), ("metadata_ttl", "-1s"),
    ("negative_ttl", "5 parsecs"), ("passthrough", "maybe"), ("fuse_threads", "-2"), ("uid", "root"),
    ("file_mode", "999"), ("cache_dir", "relative/path"), ("log_file", "relative"), ("endpoint_url", "ftp://x"),
    ("log_level", "loud"), ("no_such_option", "1")])
def test_nonsense_values(store, mount, option, value):
    mounted = mount(start=False, **{option: value})
    fails_within(mounted, "--" + option.replace("_", "-"))
    assert not mounts_below(mounted.path)
    assert store.stats().raw["connections_accepted"] == 0


def test_unknown_bucket(store, mount):
    mounted = mount(start=False)
    mounted.source = "s3://no-such-bucket/x"
    fails_within(mounted, "no-such-bucket", store.endpoint)
    assert not mounts_below(mounted.path)


def test_wrong_keys(store, mount):
    mounted = mount(start=False, env={"AWS_SECRET_ACCESS_KEY": "wrong"})
    fails_within(mounted, "SignatureDoesNotMatch", store.endpoint)
    mounted.env["AWS_ACCESS_KEY_ID"] = "UNKNOWN"
    fails_within(mounted, "InvalidAccessKeyId")
    assert not mounts_below(mounted.path)


def test_no_keys_at_all(store, mount):
    mounted = mount(start=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del mounted.env[name]
    fails_within(mounted)
    assert not mounts_below(mounted.path)


def test_public_bucket(mount, folder):
    with TestStore(no_auth=True) as public:
        public.put_generated("a", MIB, 1)
        mounted = mount(store=public, no_sign_request=True)
        compare(read_all(mounted.path / "a"), MIB, 1)
        mounted.umount()


def test_wrong_region(store, mount):
    mounted = mount(start=False, region="eu-west-9")
    fails_within(mounted, "eu-west-9")
    assert not mounts_below(mounted.path)


def test_unreachable_endpoint(mount, store):
    with socket.socket() as taken, socket.create_server(("127.0.0.1", 0), backlog=5) as silent:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused; the other connects, and never answers
        endpoints = [f"http://127.0.0.1:{taken.getsockname()[1]}", f"http://127.0.0.1:{silent.getsockname()[1]}",
                     "http://no-such-host.invalid"]
        mounts = [mount(start=False, endpoint_url=endpoint) for endpoint in endpoints]
        Together(*[lambda m=m, e=e: fails_within(m, e) for m, e in zip(mounts, endpoints)]).join()
    assert not daemons()
    assert not [point for mounted in mounts for point in mounts_below(mounted.path)]


def test_endpoint_that_speaks_no_s3(mount, store):
    store.fault("html", {"kind": "list"}, times=-1)
    store.fault("html", {"kind": "head"}, times=-1)
    store.fault("html", {"kind": "other"}, times=-1)
    fails_within(mount(start=False), store.endpoint)


def test_mountpoint_that_is_none(store, mount, folder):
    mounted = mount(start=False)
    mounted.path.rmdir()
    fails_within(mounted, mounted.path)
    mounted.path.write_text("a file")
    fails_within(mounted, mounted.path)
    assert mounted.path.read_text() == "a file"


def test_mountpoint_in_use(store, mount):
    store.put("a", b"first")
    first = mount()
    second = mount(at=first.path, start=False)
    done = shardfs(*second.arguments(), env=second.env)
    one_line(done, first.path, first.source, first.pid)
    assert (first.path / "a").read_bytes() == b"first"
    assert mounts_below(first.path) == [str(first.path)]


def test_cache_folder_that_cannot_be_made(store, mount, folder):
    (folder / "file").write_text("x")
    mounted = mount(start=False, cache_dir=folder / "file" / "cache")
    fails_within(mounted, folder / "file" / "cache")
    assert not mounts_below(mounted.path)


def test_cache_folder_of_somebody_else(store, mount, folder):
    """Never a folder with others' files in it: eviction must not meet them."""
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years")
    mounted = mount(start=False, cache_dir=theirs)
    done = shardfs(*mounted.arguments(), env=mounted.env)
    if done.returncode == 0:
        mounted.pid = mounted.stats()["pid"]
        mounted.umount()
    else:
        one_line(done, theirs)
    assert (theirs / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_mount(store, mount, number):
    store.put_generated("a", MIB, 1)
    mounted = mount()
    compare(read_all(mounted.path / "a"), MIB, 1)
    os.kill(mounted.pid, number)
    until(lambda: gone(mounted.pid), "the daemon ends")
    assert not mounts_below(mounted.path)
    assert shardfs("stats", mounted.path, env=mounted.env).returncode != 0
    assert not list(pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]).iterdir())


def test_foreground(store, mount):
    store.put("a", b"bytes")
    mounted = mount(start=False, foreground=True)
    process = subprocess.Popen([program(), *mounted.arguments()], env=mounted.env, stdin=subprocess.DEVNULL)
    until(lambda: mounts_below(mounted.path) and shardfs("stats", mounted.path, env=mounted.env).returncode == 0,
          "the mount answers")
    mounted.pid = process.pid
    assert (mounted.path / "a").read_bytes() == b"bytes"
    done = shardfs("umount", mounted.path, env=mounted.env)
    assert done.returncode == 0, done.stderr
    assert process.wait(timeout=30) == 0


def test_umount_twice_and_of_nothing(store, mount, folder):
    mounted = mount()
    mounted.umount()
    again = shardfs("umount", mounted.path, env=mounted.env)
    assert again.returncode == 0  # an epilog may run it twice
    missing = shardfs("umount", folder / "missing", env=mounted.env)
    one_line(missing, folder / "missing")
    refused = shardfs("umount", "/proc", env=mounted.env)
    one_line(refused, "/proc")


def test_umount_of_a_busy_mount(store, mount):
    store.put("dir/a", b"bytes")
    mounted = mount()
    shell = subprocess.Popen(["sleep", "1000"], cwd=mounted.path / "dir")
    try:
        done = shardfs("umount", mounted.path, env=mounted.env)
        assert done.returncode == 1
        assert str(shell.pid) in done.stderr and "working directory" in done.stderr
        assert (mounted.path / "dir/a").read_bytes() == b"bytes"
        lazily = shardfs("umount", "--lazy", mounted.path, env=mounted.env)
        assert lazily.returncode == 0
        assert not mounts_below(mounted.path)
    finally:
        shell.kill()
        shell.wait()
    until(lambda: gone(mounted.pid), "the daemon ends with its last user")


def test_fusermount_ends_the_daemon_too(store, mount):
    mounted = mount()
    subprocess.run(["umount", str(mounted.path)], check=True)
    until(lambda: gone(mounted.pid), "the daemon ends")
    until(lambda: not list(pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]).iterdir()), "its files go")


def test_mount_again_and_again(store, mount):
    store.put_generated("a", MIB, 1)
    mounted = mount()
    for _ in range(8):
        compare(read_all(mounted.path / "a"), MIB, 1)
        mounted.remount()
    assert len(daemons()) == 1


def test_stats_without_a_name(store, mount):
    """The only mount is meant; of several, all are listed."""
    first = mount()
    one = shardfs("stats", "--json", env=first.env)
    assert json.loads(one.stdout)["mountpoint"] == str(first.path)
    second = mount()
    both = shardfs("stats", env=first.env)
    assert str(first.path) in both.stdout and str(second.path) in both.stdout


def test_options_from_the_environment_and_a_file(store, mount, folder):
    config = folder / "config.toml"
    config.write_text(f'cache-size = "64M"\nmemory-limit = "48M"\ncache-dir = "{folder}/from-file"\n')
    mounted = mount(cache_size=None, cache_dir=None, config=config, env={"SHARDFS_MEMORY_LIMIT": "40M"})
    stats = mounted.stats()
    assert stats["cache_limit_bytes"] == 64 * MIB
    assert stats["memory_limit_bytes"] == 40 * MIB
    assert (folder / "from-file").is_dir()
    assert environment().get("SHARDFS_MEMORY_LIMIT") is None
