"""The Debian package and the tarball."""

import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import program

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def packages():
    subprocess.run([TOP / "tools" / "package", "--no-build"], check=True, capture_output=True)
    return TOP / "build" / "packages"


class Machine:
    """A dpkg of its own, whose packages lie in a folder."""

    def __init__(self, folder):
        self.root = folder / "root"
        admin = folder / "admin"
        for path in (self.root, admin / "info", admin / "updates", admin / "triggers"):
            path.mkdir(parents=True)
        (admin / "status").touch()
        self.options = [f"--admindir={admin}", f"--instdir={self.root}", "--force-depends", f"--log={folder}/dpkg.log"]

    def dpkg(self, *arguments):
        done = subprocess.run(["dpkg", *self.options, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def machine(folder):
    return Machine(folder)


def test_install_upgrade_remove_with_a_live_mount(packages, machine, store, mount, monkeypatch):
    package, = packages.glob("*.deb")
    store.put_generated("a", MIB, 1)
    machine.dpkg("-i", package)
    installed = machine.root / "usr/bin/shardfs"
    config = machine.root / "etc/shardfs/config.toml"
    config.write_text(config.read_text() + '# mine\n')
    monkeypatch.setenv("SHARDFS", str(installed))
    mounted = mount()
    compare(read_all(mounted.path / "a"), MIB, 1)
    machine.dpkg("-i", "--force-confold", package)  # an upgrade replaces the file of the running program
    assert config.read_text().endswith("# mine\n")
    compare(read_all(mounted.path / "a"), MIB, 1)
    mounted.remount()
    machine.dpkg("-r", "shardfs")
    assert not installed.exists() and config.exists()
    compare(read_all(mounted.path / "a"), MIB, 1)
    subprocess.run(["umount", str(mounted.path)], check=True)
    machine.dpkg("-P", "shardfs")
    left = [path for path in machine.root.rglob("*") if not path.is_dir()]
    assert not left


def test_what_is_in_the_package(packages, machine):
    package, = packages.glob("*.deb")
    machine.dpkg("-i", package)
    usr = machine.root / "usr"
    assert os.readlink(usr / "sbin/mount.fuse.shardfs") == "mount.shardfs"
    for name in ("lib/systemd/system/shardfs@.service", "share/shardfs/slurm/prolog.d/50-shardfs",
                 "share/shardfs/grafana/shardfs.json", "share/doc/shardfs/docs/slurm.md"):
        assert (usr / name).exists()
    assert os.access(usr / "share/shardfs/slurm/prolog.d/50-shardfs", os.X_OK)
    page = subprocess.run(["man", "--warnings", "-l", usr / "share/man/man1/shardfs.1.gz"], capture_output=True, text=True,
                          env={**os.environ, "MANWIDTH": "100", "LANG": "C.UTF-8"}, check=True)
    assert not page.stderr
    for word in ("--cache-size", "umount", "slurm prolog", "--metrics-listen"):
        assert word in page.stdout
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
    assert "libcurl" in depends and "libfuse" not in depends


def test_completion(packages, machine):
    package, = packages.glob("*.deb")
    machine.dpkg("-i", package)
    script = machine.root / "usr/share/bash-completion/completions/shardfs"

    def complete(*words):
        asked = f'. {script}; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _shardfs; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, cwd="/").stdout.split()

    assert {"mount", "umount", "stats", "top", "slurm"} <= set(complete("shardfs", '""'))
    assert complete("shardfs", "um") == ["umount"]
    assert "--cache-size" in complete("shardfs", "mount", "--cache")
    assert complete("shardfs", "stats", "--js") == ["--json"]
    assert "generate" not in complete("shardfs", '""')


def test_tarball_brings_its_libraries(packages, store, mount, folder, monkeypatch):
    archive, = packages.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    unpacked, = folder.glob("shardfs-*")
    moved = folder / "elsewhere"
    shutil.move(unpacked, moved)
    linked = subprocess.run(["ldd", moved / "bin/shardfs"], capture_output=True, text=True, check=True).stdout
    foreign = [line for line in linked.splitlines() if "=>" in line and str(moved) not in line]
    assert all(line.split()[0].startswith(("libc.", "libm.", "libresolv.", "ld-linux")) for line in foreign), foreign
    store.put_generated("a", MIB, 1)
    monkeypatch.setenv("SHARDFS", str(moved / "bin/shardfs"))
    assert program() == str(moved / "bin/shardfs")
    mounted = mount()
    compare(read_all(mounted.path / "a"), MIB, 1)
    mounted.umount()
