"""Metrics for Prometheus: on a port, in a file, and held against the table in docs/metrics.md."""

import os
import pathlib
import re
import socket
import urllib.error
import urllib.request

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import shardfs

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        lines = answer.read().decode().splitlines(keepends=True)
    # The library's own, on each port.
    return "".join(line for line in lines if not re.match(r"(# \w+ )?exposer_", line))


def samples(text):
    """{(name, frozenset of labels): value}"""
    found = {}
    for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        found[name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))] = float(value)
    return found


def value(text, name, **labels):
    wanted = set(labels.items())
    found = [value for (other, given), value in samples(text).items() if other == name and wanted <= given]
    assert len(found) == 1, f"{name} {labels}: {found}"
    return found[0]


def test_values_of_a_mount(store, mount, port):
    store.put_generated("a", 3 * MIB, 1)
    mounted = mount(metrics_listen=port, metrics_labels="slurm_job=7,user=ada")
    compare(read_all(mounted.path / "a"), 3 * MIB, 1)
    text = scrape(port)
    where = {"mountpoint": str(mounted.path), "source": "s3://bucket", "slurm_job": "7", "user": "ada"}
    assert all(set(where.items()) <= labels for _, labels in samples(text))
    stats = mounted.stats()
    assert value(text, "shardfs_info", version=stats["version"]) == 1
    assert value(text, "shardfs_read_bytes_total") == stats["read_bytes"] >= 3 * MIB
    assert value(text, "shardfs_store_requests_total", kind="get") == stats["requests"]["get"]
    fetched = [number for (name, _), number in samples(text).items() if name == "shardfs_fetched_bytes_total"]
    assert sum(fetched) == 3 * MIB
    results = ("hit", "partial_hit", "miss")
    assert [value(text, "shardfs_reads_total", result=each) for each in results] == \
        [stats["hits"], stats["partial_hits"], stats["misses"]]
    assert value(text, "shardfs_cache_limit_bytes") == stats["cache_limit_bytes"] > 0
    assert value(text, "shardfs_read_seconds_count") == stats["read_seconds"]["count"] > 0
    buckets = [(float(dict(labels)["le"]), number) for (name, labels), number in samples(text).items()
               if name == "shardfs_read_seconds_bucket"]
    buckets.sort()
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert buckets[-1] == (float("inf"), stats["read_seconds"]["count"])
    assert value(text, "shardfs_uptime_seconds") > 0


def test_the_table_is_what_is_exported(store, mount, port):
    """Every name, its kind and its label; in both directions."""
    store.put_generated("a", 3 * MIB, 1)
    mounted = mount(metrics_listen=port)
    compare(read_all(mounted.path / "a"), 3 * MIB, 1)
    text = scrape(port)
    exported = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    helped = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE))
    rows = re.findall(r"^\| `(shardfs_\w+)` \| (\w+) \| (.*?) \| (.*?) \| (stable|may change) \| (.*?) \|$", DOCS.read_text(),
                      re.MULTILINE)
    assert {name: kind for name, kind, *_ in rows} == exported
    assert {name: meaning for name, *_, meaning in rows} == helped
    for name, kind, unit, label, _, _ in rows:
        assert name.endswith("_total") == (kind == "counter")
        assert (unit == "bytes") == ("_bytes" in name) and (unit == "s") == ("_seconds" in name)
        given = {key for (other, labels) in samples(text) if re.fullmatch(rf"{name}(_bucket|_sum|_count)?", other)
                 for key, _ in labels} - {"mountpoint", "source", "le"}
        assert given <= {label.strip("`")}, name


def test_the_port_is_on_the_loopback_only(store, mount, port):
    mounted = mount(metrics_listen=port)
    listening = pathlib.Path("/proc/net/tcp").read_text()
    assert f"0100007F:{port:04X} " in listening and f"00000000:{port:04X} " not in listening
    mounted.umount()
    with pytest.raises(urllib.error.URLError):
        scrape(port)


def test_nothing_listens_unless_told(store, mount):
    mounted = mount()
    inodes = {os.readlink(path)[8:-1] for path in pathlib.Path(f"/proc/{mounted.pid}/fd").iterdir()
              if os.path.islink(path) and os.readlink(path).startswith("socket:")}
    listening = {line.split()[9] for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text()
                 .splitlines()[1:] if line.split()[3] == "0A"}
    assert not inodes & listening


def test_a_port_that_is_taken(store, mount):
    with socket.create_server(("127.0.0.1", 0)) as held:
        taken = held.getsockname()[1]
        mounted = mount(start=False, metrics_listen=taken)
        done = shardfs(*mounted.arguments(), env=mounted.env)
    assert done.returncode == 1 and str(taken) in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("labels", ["x", "1a=b", "mountpoint=/x", "kind=x", "a=1,a=2", "__x=1"])
def test_labels_that_make_no_sense(store, mount, labels):
    mounted = mount(start=False, metrics_labels=labels)
    done = shardfs(*mounted.arguments(), env=mounted.env)
    assert done.returncode == 2 and "--metrics-labels" in done.stderr


def test_files_for_node_exporter(store, mount, folder):
    metrics = folder / "textfile"
    metrics.mkdir()
    mounts = [mount(metrics_file=metrics) for _ in range(2)]
    files = sorted(metrics.iterdir())
    assert len(files) == 2 and all(path.suffix == ".prom" and path.stat().st_mode & 0o777 == 0o644 for path in files)
    shown = {dict(labels)["mountpoint"] for path in files for _, labels in samples(path.read_text())}
    assert shown == {str(mounted.path) for mounted in mounts}
    mounts[0].umount()
    assert len(list(metrics.iterdir())) == 1
    mounts[1].umount()
    assert not list(metrics.iterdir())
    absent = mount(start=False, metrics_file=folder / "absent" / "x.prom")
    done = shardfs(*absent.arguments(), env=absent.env)
    assert done.returncode == 1 and str(folder / "absent") in done.stderr.splitlines()[-1]
