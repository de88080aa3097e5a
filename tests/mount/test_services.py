"""Under a service manager, from fstab, and the end of a mount that somebody holds."""

import contextlib
import errno
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import daemons, gone, mounts_below, program, shardfs
from lib.waiting import until

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
CONNECTIONS = "/sys/fs/fuse/connections"


class Foreground:
    """A mount in the foreground, with the service manager's socket."""

    def __init__(self, mounted, folder, **options):
        self.path = mounted.path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(folder / "notify"))
        self.listener.settimeout(30)
        mounted.options["--foreground"] = True
        environment = {**mounted.env, "NOTIFY_SOCKET": str(folder / "notify"), **options.pop("env", {})}
        self.process = subprocess.Popen([program(), *mounted.arguments()], env=environment, stdin=subprocess.DEVNULL,
                                        **options)
        mounted.pid = self.process.pid

    def message(self):
        return self.listener.recv(4096).decode()

    def end(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        self.listener.close()


def test_ready_reload_stopping(store, mount, folder):
    store.put("a", b"bytes")
    log = folder / "log-0"
    config = folder / "config.toml"
    config.write_text(f'log-level = "debug"\nlog-file = "{log}"\n')
    mounted = mount(start=False, config=config, log_file=None, log_level=None)
    service = Foreground(mounted, folder)
    ready = service.message().splitlines()
    assert ready[0] == "READY=1" and f"MAINPID={service.process.pid}" in ready
    assert (mounted.path / "a").read_bytes() == b"bytes"
    config.write_text(f'log-level = "info"\nlog-file = "{folder / "second"}"\n')
    service.process.send_signal(signal.SIGHUP)
    reloading = service.message().splitlines()
    assert reloading[0] == "RELOADING=1" and re.fullmatch(r"MONOTONIC_USEC=\d+", reloading[1])
    assert service.message() == "READY=1"
    second = (folder / "second").read_text()
    assert "read again" in second and " debug " not in second
    config.write_text('log-level = "loud"\n')
    service.process.send_signal(signal.SIGHUP)
    service.message(), service.message()
    assert "loud" in (folder / "second").read_text() and service.process.poll() is None
    service.process.terminate()
    assert service.message() == "STOPPING=1"
    service.end()


def test_lines_for_the_journal(store, mount, folder):
    mounted = mount("nothing/here", start=False, log_file=None, log_level="info")
    with open(folder / "stream", "wb") as stream:
        status = os.fstat(stream.fileno())
        service = Foreground(mounted, folder, stderr=stream, env={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        service.message()
        service.end()
    lines = (folder / "stream").read_text().splitlines()
    assert any(re.match(r"<4>.*nothing/here", line) for line in lines), lines
    assert any(re.match(r"<6>.*is mounted on", line) for line in lines), lines


def test_limits_of_the_process(store, mount):
    mounted = mount()
    limits = pathlib.Path(f"/proc/{mounted.pid}/limits").read_text()
    soft, hard = re.search(r"Max open files +(\S+) +(\S+)", limits).groups()
    assert soft == hard
    mounted.remount(oom_score_adj="200")  # a lower one than one's own takes a capability that containers lack
    assert pathlib.Path(f"/proc/{mounted.pid}/oom_score_adj").read_text().strip() == "200"


def test_two_at_once_on_one_mountpoint(store, mount):
    store.put("a", b"bytes")
    first = mount(start=False)
    started = [subprocess.Popen([program(), *first.arguments()], env=first.env, stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[1] for process in started]
    codes = [process.returncode for process in started]
    assert sorted(codes) == [0, 1, 1], said
    assert all("in use" in text for text, code in zip(said, codes) if code)
    assert mounts_below(first.path) == [str(first.path)]
    first.pid = first.stats()["pid"]
    assert daemons() == [first.pid]
    assert (first.path / "a").read_bytes() == b"bytes"


def test_mount_helper(store, mount, folder):
    """As mount(8) calls it for a line of fstab."""
    store.put("a,b", b"bytes")
    mounted = mount(start=False)
    (folder / "with,comma").mkdir()
    mounted.options["--cache-dir"] = folder / "with,comma"
    words = ["rw", "_netdev", "nofail", "x-systemd.automount", "allow_other"]
    for option, value in mounted.options.items():
        name = option[2:].replace("-", "_")
        words.append(name if value is True else f"{name}={value}".replace(",", "\\,"))
    helper = [str(PACKAGING / "mount.shardfs"), mounted.source, str(mounted.path), "-n", "-v", "-t", "fuse.shardfs", "-o"]
    environment = {**mounted.env, "SHARDFS": program()}
    wrong = subprocess.run([*helper, "cache_sise=1G"], env=environment, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "cache_sise" in wrong.stderr
    lacking = subprocess.run([*helper, "cache_size"], env=environment, capture_output=True, text=True, check=False)
    assert lacking.returncode == 2 and "cache_size" in lacking.stderr
    done = subprocess.run([*helper, ",".join(words)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mounted.pid = mounted.stats()["pid"]
    assert (mounted.path / "a,b").read_bytes() == b"bytes"
    assert list((folder / "with,comma").iterdir())
    mounted.umount()


@pytest.fixture
def holder():
    held = []

    def hold(path):
        held.append(subprocess.Popen(["sleep", "1000"], cwd=path))
        return held[-1]

    yield hold
    for process in held:
        process.kill()
        process.wait()


@contextlib.contextmanager
def fusectl():
    ours = not os.listdir(CONNECTIONS) and not os.path.ismount(CONNECTIONS)
    if ours:
        subprocess.run(["mount", "-t", "fusectl", "none", CONNECTIONS], check=True)
    try:
        yield
    finally:
        if ours:
            subprocess.run(["umount", CONNECTIONS], check=True)


def test_mount_again_while_the_last_one_is_held(store, mount, holder):
    """A job left a process behind; the next job's mount comes about, and neither touches the other's files."""
    store.put("dir/a", b"bytes")
    first = mount()
    process = holder(first.path / "dir")
    done = shardfs("umount", "--lazy", first.path, env=first.env)
    assert done.returncode == 0 and f"{process.pid} (sleep): working directory" in done.stderr
    second = mount(at=first.path)
    assert second.pid != first.pid and not gone(first.pid)
    process.kill()
    process.wait()
    until(lambda: gone(first.pid), "the first daemon ends with its last user")
    assert second.stats()["pid"] == second.pid
    assert (second.path / "dir/a").read_bytes() == b"bytes"


def test_force_aborts_what_holds(store, mount, holder):
    store.put_generated("a", MIB, 1)
    mounted = mount()
    process = holder(mounted.path)
    with fusectl(), open(mounted.path / "a", "rb", buffering=0) as held:
        done = shardfs("umount", "--force", "--timeout", "500ms", mounted.path, env=mounted.env)
        assert done.returncode == 0, done.stderr
        assert f"{process.pid} (sleep)" in done.stderr and "aborted its connection" in done.stderr
        assert "killed" not in done.stderr and gone(mounted.pid) and not mounts_below(mounted.path)
        with pytest.raises(OSError) as failed:
            held.read(MIB)
        assert failed.value.errno == errno.ENOTCONN
    assert not list(pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]).iterdir())


def test_force_kills_a_daemon_that_hangs(store, mount, holder):
    store.put_generated("a", MIB, 1)
    mounted = mount()
    compare(read_all(mounted.path / "a"), MIB, 1)
    holder(mounted.path)
    os.kill(mounted.pid, signal.SIGSTOP)
    done = shardfs("umount", "--force", "--timeout", "500ms", mounted.path, env=mounted.env)
    assert done.returncode == 0, done.stderr
    assert "killed its daemon" in done.stderr
    assert gone(mounted.pid) and not mounts_below(mounted.path)
    assert not list(pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]).iterdir())


def test_the_unit_names_what_there_is():
    """Every option and command in it exists; systemd's own check, where it is installed."""
    unit = (PACKAGING / "systemd" / "shardfs@.service").read_text()
    commands = re.findall(r"^Exec\w+=/usr/bin/shardfs (\w+)(.*)$", unit, re.MULTILINE)
    assert [command for command, _ in commands] == ["mount", "umount"]
    for command, words in commands:
        known = shardfs(command, "--help").stdout
        for option in re.findall(r"--[a-z-]+", words):
            assert option in known
