"""Where the demo's program and its Python are, and what each test may leave behind: nothing."""

import os
import pathlib
import subprocess
import sys
import uuid

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
LOADER = TOP / "tools" / "demo_loader"
MARK = "DEMO_TEST_MARK"  # in the environment of all that a test starts; the demo hands it on


def program():
    if "SHARDFS_BUILD" in os.environ:
        return pathlib.Path(os.environ["SHARDFS_BUILD"]) / "shardfs"
    return pathlib.Path(os.environ.get("SHARDFS", TOP / "build" / "shardfs"))


def loader_python():
    venv = TOP / "build" / "venv" / "bin" / "python"
    return os.environ.get("SHARDFS_DEMO_PYTHON") or (str(venv) if venv.exists() else sys.executable)


@pytest.fixture(scope="session")
def python():
    """One that has all that the demo's scripts import; without one the test is skipped."""
    found = loader_python()
    modules = "import torch, numpy, PIL, webdataset, importlib.util; assert importlib.util.find_spec('skimage')"
    if subprocess.run([found, "-c", modules], capture_output=True).returncode != 0:
        pytest.skip(f"{found} lacks torch, webdataset or scikit-image")
    return found


def processes(mark):
    """Those that carry the mark, zombies left out."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except OSError:
            continue  # ended meanwhile, or not ours to see
    return found


def mounts_below(folder):
    lines = pathlib.Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    return [line.split(" ")[4] for line in lines if line.split(" ")[4].startswith(str(folder))]


class Place:
    """A folder for temporary files, and an environment that keeps the demo in it."""

    def __init__(self, folder):
        self.temporary = folder / "tmp"
        self.runtime = folder / "run"
        self.json = folder / "demo.json"
        self.mark = uuid.uuid4().hex
        self.temporary.mkdir()
        self.runtime.mkdir(mode=0o700)

    def environment(self, python):
        return {**os.environ, "TMPDIR": str(self.temporary), "SHARDFS_RUNTIME_DIR": str(self.runtime),
                "SHARDFS_DEMO_SCRIPTS": str(LOADER), "SHARDFS_DEMO_PYTHON": str(python), MARK: self.mark}

    def command(self, *arguments):
        return [str(program()), "demo", "--json", str(self.json), *arguments]

    def demo(self, python, *arguments, patience_s=300):
        return subprocess.run(self.command(*arguments), env=self.environment(python), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=patience_s)

    def assert_clean(self):
        assert mounts_below(self.temporary) == []
        assert processes(self.mark) == []
        assert list(self.temporary.iterdir()) == []
        assert list(self.runtime.rglob("*")) == [path for path in self.runtime.rglob("*") if path.is_dir()]

    def clear_away(self):
        """Also after a failure."""
        for mountpoint in mounts_below(self.temporary):
            subprocess.run(["umount", "-l", mountpoint], check=False, capture_output=True)
        for process, _ in processes(self.mark):
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                pass


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path)
    yield found
    found.clear_away()
