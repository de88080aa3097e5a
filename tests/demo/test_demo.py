"""`shardfs demo`, small: its figures, its table, and that it leaves nothing behind."""

import json
import math
import signal
import subprocess

import pytest

FIELDS = {"samples_per_s", "mb_per_s", "wall_s", "time_to_first_batch_s", "mean_input_wait_s", "input_wait_fraction",
          "gets", "fetched_bytes", "hit_ratio"}
SIZE = 32 << 20
SAMPLES = 400
SMALL = ["--size", "32M", "--samples", str(SAMPLES), "--shards", "8"]


def check_figures(figures):
    for name in ("cold", "warm", "local"):
        row = figures[name]
        assert FIELDS <= row.keys(), f"{name} lacks {FIELDS - row.keys()}"
        assert all(math.isfinite(row[field]) and row[field] >= 0 for field in FIELDS), row
        assert row["samples"] == SAMPLES
        assert row["samples_per_s"] > 0
        assert 0 < row["time_to_first_batch_s"] <= row["wall_s"]
        assert row["input_wait_fraction"] <= 1
    cold, warm, local = (figures[name] for name in ("cold", "warm", "local"))
    size = cold["bytes"]
    assert size >= SIZE
    assert warm["bytes"] == local["bytes"] == size
    assert size <= cold["fetched_bytes"] <= 1.05 * size
    assert cold["gets"] > 0
    assert cold["hit_ratio"] == 0
    assert (warm["gets"], warm["fetched_bytes"], warm["hit_ratio"]) == (0, 0, 1)
    assert (local["gets"], local["fetched_bytes"]) == (0, 0)


def check_table(text):
    for words in ("samples/s", "MB/s", "1st batch", "mean wait", "input wait", "fetched MB", "hit ratio"):
        assert words in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("cold", "warm", "local"))] == [
        "cold", "warm", "local"]


def test_with_webdataset(place, python):
    done = place.demo(python, *SMALL)
    assert done.returncode == 0, done.stderr
    check_table(done.stdout)
    figures = json.loads(place.json.read_text())
    assert figures["reader"] == "webdataset"
    check_figures(figures)
    place.assert_clean()


def test_through_the_daemon(place, python):
    done = place.demo(python, *SMALL, "--passthrough", "off")
    assert done.returncode == 0, done.stderr
    figures = json.loads(place.json.read_text())
    assert figures["passthrough"] is False
    check_figures(figures)
    place.assert_clean()


def test_without_python_it_says_so_and_reads_itself(place):
    done = place.demo("/nonexistent", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "/nonexistent" in done.stderr
    check_table(done.stdout)
    figures = json.loads(place.json.read_text())
    assert figures["reader"].startswith("built-in")
    check_figures(figures)
    place.assert_clean()


@pytest.mark.parametrize("step", ["[1/", "[3/"])
def test_an_interrupt_takes_all_away(place, step):
    # So much that it is in that step when the signal comes.
    command = place.command("--size", "256M")
    with subprocess.Popen(command, env=place.environment("/nonexistent"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True) as demo:
        seen = b""
        while step.encode() not in seen:
            byte = demo.stderr.read(1)
            assert byte, seen
            seen += byte
        demo.send_signal(signal.SIGINT)
        demo.stderr.read()
        assert demo.wait(60) != 0
    assert not place.json.exists()
    place.assert_clean()
