"""The demo's Python programs by themselves, on local folders."""

import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile

LOADER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "demo_loader"


def run(python, script, *arguments):
    return subprocess.run([python, LOADER / script, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)


def make(python, folder, shards=3, samples=50, size=2 << 20, *more):
    folder.mkdir()
    done = run(python, "make_dataset.py", "--out", folder, "--shards", shards, "--samples", samples, "--bytes", size,
               *more)
    assert done.returncode == 0, done.stderr
    return done


def members(folder):
    """Name to bytes, of all shards."""
    found = {}
    for path in sorted(folder.iterdir()):
        with tarfile.open(path) as tar:
            for member in tar:
                assert member.name not in found
                found[member.name] = tar.extractfile(member).read()
    return found


def test_a_set_of_distinct_samples(python, tmp_path):
    done = make(python, tmp_path / "set")
    lines = done.stdout.splitlines()
    assert all(line.startswith("progress ") for line in lines)
    fractions = [float(line.split()[1]) for line in lines]
    assert fractions == sorted(fractions) and fractions[-1] == 1

    shards = sorted((tmp_path / "set").iterdir())
    assert [path.name for path in shards] == [f"shard-{i:06d}.tar" for i in range(3)]
    size = sum(path.stat().st_size for path in shards)
    assert 2 << 20 <= size <= 1.15 * (2 << 20)

    found = members(tmp_path / "set")
    keys = sorted({name.split(".")[0] for name in found})
    assert keys == [f"{i:08d}" for i in range(50)]
    assert sorted(found) == sorted(f"{key}.{end}" for key in keys for end in ("cls", "jpg", "json"))
    pictures = [data for name, data in found.items() if name.endswith(".jpg")]
    assert all(data.startswith(b"\xff\xd8\xff") and data.endswith(b"\xff\xd9") for data in pictures)
    assert len({hashlib.sha256(data).digest() for data in pictures}) == 50
    assert all(json.loads(data)["photograph"] for name, data in found.items() if name.endswith(".json"))


def test_the_seed_decides(python, tmp_path):
    make(python, tmp_path / "one", 2, 8, 400_000, "--processes", 1)
    make(python, tmp_path / "same", 2, 8, 400_000, "--processes", 2)
    make(python, tmp_path / "other", 2, 8, 400_000, "--seed", 2)
    assert members(tmp_path / "one") == members(tmp_path / "same")
    assert members(tmp_path / "one") != members(tmp_path / "other")


def test_epochs(python, tmp_path):
    make(python, tmp_path / "set")
    out = tmp_path / "epochs.json"
    done = run(python, "read_epochs.py", "--path", tmp_path / "set", "--epochs", 2, "--batch-size", 8, "--out", out)
    assert done.returncode == 0, done.stderr
    epochs = json.loads(out.read_text())
    size = sum(path.stat().st_size for path in (tmp_path / "set").iterdir())
    assert len(epochs) == 2
    for epoch in epochs:
        assert (epoch["samples"], epoch["bytes"]) == (50, size)
        assert 0 < epoch["time_to_first_batch_s"] <= epoch["wall_s"]
        assert 0 < epoch["mean_input_wait_s"] <= epoch["wall_s"]
        assert 0 < epoch["input_wait_fraction"] <= 1
        assert epoch["checksum"] == epochs[0]["checksum"]
    done = run(python, "read_epochs.py", "--path", tmp_path / "set", "--decode", "--step-ms", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())[0]["checksum"] == epochs[0]["checksum"]


def test_no_shards(python, tmp_path):
    done = run(python, "read_epochs.py", "--path", tmp_path, "--out", tmp_path / "epochs.json")
    assert done.returncode == 1
    assert "no shards" in done.stderr


def test_a_missing_package_is_named(tmp_path):
    for script, arguments in (("make_dataset.py", ["--out", tmp_path]),
                              ("read_epochs.py", ["--path", tmp_path, "--out", tmp_path / "epochs.json"])):
        # -S: without the folders that packages lie in.
        done = subprocess.run([sys.executable, "-S", "-E", LOADER / script, *arguments], capture_output=True, text=True)
        assert done.returncode == 3, done.stderr
        assert "torch" in done.stderr.splitlines()[-1]
