"""Mount: one `shardfs mount` in a test, and the functions that see what it left behind.

All mounts of a run lie below one folder and carry one mark in their environment, so that whatever is left of them can be
found and taken away without touching anybody else's.
"""

import functools
import json
import os
import pathlib
import re
import signal
import subprocess

from lib.waiting import until

MARK = "SHARDFS_TESTS_MARK"


def program():
    top = pathlib.Path(__file__).resolve().parents[3]
    return os.environ.get("SHARDFS", str(top / "build" / "shardfs"))


@functools.lru_cache(maxsize=None)
def sanitized():
    """Whether the program is a build with a sanitizer."""
    code = pathlib.Path(program()).read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


def environment(store=None, **more):
    """That of a job on a machine without any AWS configuration: only what is given here."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SHARDFS_RUNTIME_DIR", MARK, "HOME") if name in os.environ}
    kept.update({name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
    kept["AWS_EC2_METADATA_DISABLED"] = "true"  # no test asks anything outside of this machine
    if store is not None:
        kept.update({name: value for name, value in store.env().items() if not name.startswith("AWS_ENDPOINT")})
    return {**kept, **more}


def shardfs(*arguments, env=None, patience_s=60, **options):
    """Runs the program to its end, its output captured as text."""
    return subprocess.run([program(), *map(os.fspath, arguments)], env=env or environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="surrogateescape", timeout=patience_s, **options)


def mounts_below(folder):
    """The mountpoints on or below a folder, the topmost last."""
    text = pathlib.Path("/proc/self/mountinfo").read_bytes().decode(errors="surrogateescape")
    points = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), line.split(" ")[4]) for line in text.splitlines()]
    return [point for point in points if point == str(folder) or point.startswith(f"{folder}/")]


def daemons():
    """The processes of the program that this run of the tests started, zombies left out."""
    wanted = f"{MARK}={os.environ[MARK]}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.path.basename(os.readlink(entry / "exe")).split(" ")[0] != os.path.basename(program()):
                continue
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile, or a kernel thread
    return found


def gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Mount:
    """Not started yet when made. start() fails the test unless the mount comes about."""

    def __init__(self, source, path, *, env, options):
        self.source = source.rstrip("/")
        self.path = pathlib.Path(path)
        self.env = env
        self.options = options
        self.started = None  # the finished `shardfs mount`
        self.pid = 0

    @property
    def cache(self):
        return pathlib.Path(self.options["--cache-dir"])

    @property
    def log(self):
        path = pathlib.Path(self.options["--log-file"])
        return path.read_text(errors="replace") if path.exists() else ""

    def arguments(self):
        out = ["mount", self.source, str(self.path)]
        for option, value in self.options.items():
            out += [option] if value is True else [f"{option}=false"] if value is False else [option, str(value)]
        return out

    def start(self):
        self.started = shardfs(*self.arguments(), env=self.env)
        assert self.started.returncode == 0, f"exit code {self.started.returncode}: {self.started.stderr}\n{self.log}"
        self.pid = self.stats()["pid"]
        return self

    def stats(self):
        answer = shardfs("stats", self.path, "--json", env=self.env)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def counter(self, name):
        return self.stats()["metrics"]["counters"].get(name, 0)

    def umount(self, *arguments):
        """Fails the test unless the mount and its daemon have gone."""
        done = shardfs("umount", *arguments, self.path, env=self.env)
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
        assert not mounts_below(self.path)
        assert gone(self.pid), f"the daemon {self.pid} is still there after umount"

    def remount(self, **changes):
        self.umount()
        self.options.update({"--" + name.replace("_", "-"): value for name, value in changes.items()})
        return self.start()

    def kill(self):
        """As the kernel does when memory is short."""
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: gone(self.pid), "the killed daemon ends")

    def state(self, name):
        return os.getxattr(self.path / name, "user.shardfs.state").decode()

    def cached_bytes(self, name):
        return int(os.getxattr(self.path / name, "user.shardfs.cached_bytes"))

    def await_cached(self, name):
        """Returns when the cache holds the whole object."""
        size = os.stat(self.path / name).st_size
        until(lambda: self.cached_bytes(name) == size, f"{name} is cached")

    def clear_away(self):
        """Whatever became of it, nothing is left; for the end of a test."""
        if self.pid and not gone(self.pid) and not mounts_below(self.path):
            os.kill(self.pid, signal.SIGKILL)
        while mounts_below(self.path):
            subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)


def used_bytes(folder):
    """Of all that lies below a folder, in allocated blocks."""
    total = 0
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            try:
                total += os.lstat(os.path.join(at, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total
