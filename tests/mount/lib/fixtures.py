"""Fixtures of the suites that mount: mounts that always go away, and a look at what a test left."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid

import pytest

from lib.mounting import MARK, Mount, daemons, environment, gone, mounts_below, program
from lib.waiting import Child, until

TEST_LIMIT_S = 120  # whoever hangs longer loses his daemons: every read then ends with an error, and the suite goes on


def pytest_configure(config):
    config.addinivalue_line("markers", "limit_s(seconds): another time limit for one test")


@pytest.fixture(scope="session", autouse=True)
def run_folder():
    """Holds all mountpoints, caches and control sockets of the run."""
    if not os.path.exists(program()):
        pytest.exit(f"{program()} is not there; set SHARDFS, or run tools/test", returncode=3)
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.exit("these tests mount: they need root and /dev/fuse", returncode=3)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shardfs-tests-"))
    folder.chmod(0o755)
    before = {name: os.environ.get(name) for name in (MARK, "SHARDFS_RUNTIME_DIR", "HOME")}
    os.environ.update({MARK: uuid.uuid4().hex, "SHARDFS_RUNTIME_DIR": str(folder / "run"), "HOME": str(folder / "home")})
    (folder / "home").mkdir()
    yield folder
    end_all(folder)
    shutil.rmtree(folder, ignore_errors=True)
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def end_all(folder):
    for pid in daemons():
        os.kill(pid, signal.SIGKILL)
    for point in reversed(mounts_below(folder)):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)


@pytest.fixture(autouse=True)
def nothing_left(request, run_folder):
    """Fails a test that leaves a mount or a process, and takes both away; ends the daemons of one that hangs."""
    marker = request.node.get_closest_marker("limit_s")
    limit_s = marker.args[0] if marker else TEST_LIMIT_S
    watchdog = subprocess.Popen([sys.executable, "-S", "-c", WATCHDOG, str(limit_s), MARK, os.environ[MARK],
                                 os.path.basename(program())], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield
    hung = watchdog.poll() is not None
    watchdog.stdin.close()
    watchdog.stdout.close()
    watchdog.wait()
    left = [f"mount {point}" for point in mounts_below(run_folder)]
    try:
        until(lambda: not daemons(), "the daemons end", patience_s=10)
    except AssertionError:
        left += [f"process {pid}" for pid in daemons()]
    end_all(run_folder)
    assert not hung, f"the test took longer than {limit_s} s: its daemons were killed"
    assert not left, f"left behind: {', '.join(left)}"


# Its own process: a test that hangs in a page fault holds Python's lock.
WATCHDOG = """
import os, select, signal, sys
limit_s, name, value, program = float(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
if not select.select([sys.stdin], [], [], limit_s)[0]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")).split(" ")[0] != program: continue
            if f"{name}={value}".encode() in open(f"/proc/{pid}/environ", "rb").read().split(b"\\0"):
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
"""


@pytest.fixture
def folder(run_folder):
    """A fresh one for each test."""
    path = pathlib.Path(tempfile.mkdtemp(dir=run_folder))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def mount(request, folder):
    """mount(prefix="", *, at=None, start=True, store=None, env=None, **options): a mount of the fixture store's bucket on a
    folder of its own; all mounts of a test share one cache folder unless told otherwise. options: cache_size="8M" is
    --cache-size 8M; None leaves an option out, True and False are for flags."""
    made = []

    def make(prefix="", *, at=None, start=True, store=None, env=None, **options):
        store = store or request.getfixturevalue("store")
        number = len(made)
        path = folder / f"mount-{number}" if at is None else pathlib.Path(at)
        path.mkdir(exist_ok=True)
        wanted = {"--endpoint-url": store.endpoint, "--region": store.region, "--path-style": True,
                  "--cache-dir": folder / "cache", "--cache-size": "1G", "--cache-min-free": "0",
                  "--log-file": folder / f"log-{number}", "--log-level": "debug",
                  "--late-after": "60s"}  # counts of bytes hold on a busy machine, too
        wanted.update({"--" + name.replace("_", "-"): value for name, value in options.items()})
        made.append(Mount(store.url(prefix), path, env={**environment(store), **(env or {})},
                          options={name: value for name, value in wanted.items() if value is not None}))
        return made[-1].start() if start else made[-1]

    yield make
    Child.end_all()
    failures = []
    for mounted in reversed(made):
        try:
            if mounted.pid and not gone(mounted.pid):
                mounted.umount()
        except Exception as error:  # pylint: disable=broad-except
            failures.append(str(error))
        finally:
            mounted.clear_away()
    if getattr(request.node, "failed", False):
        for mounted in made:
            print(f"log of {mounted.path}:\n{mounted.log[-4000:]}")
    assert not failures, "; ".join(failures)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call":
        item.failed = report.failed


@pytest.fixture(params=["on", "off"])
def passthrough(request):
    """Both ways in which the bytes of a complete file reach a reader."""
    return request.param
