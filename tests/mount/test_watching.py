"""Those who look at mounts: stats --watch, top, debug bundle, and what is generated from the options."""

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import tarfile

from lib.content import MIB, compare, read_all
from lib.mounting import program, shardfs
from lib.waiting import until

TOP = pathlib.Path(__file__).resolve().parents[2]


def test_stats_watch(store, mount):
    """A line of JSON each time, until the mount ends."""
    store.put_generated("a", MIB, 1)
    mounted = mount()
    watch = subprocess.Popen([program(), "stats", mounted.path, "--watch", "--json", "--interval", "100ms"], env=mounted.env,
                             stdout=subprocess.PIPE, text=True)
    assert json.loads(watch.stdout.readline())["read_bytes"] == 0
    compare(read_all(mounted.path / "a"), MIB, 1)
    until(lambda: json.loads(watch.stdout.readline())["read_bytes"] == MIB, "the bytes are seen")
    mounted.umount()
    rest, _ = watch.communicate(timeout=30)
    assert watch.returncode == 0
    assert all(json.loads(line)["mountpoint"] == str(mounted.path) for line in rest.splitlines())
    assert shardfs("stats", mounted.path, "--watch", env=mounted.env).returncode == 1
    assert shardfs("stats", mounted.path, "--watch", "--interval", "1ms", env=mounted.env).returncode == 2


def test_top_into_a_pipe(store, mount):
    store.put_generated("a", MIB, 1)
    first, second = mount(), mount()
    done = shardfs("top", "--count", "2", "--interval", "200ms", env=first.env)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) == 6 and [line.split()[0] for line in lines[:3]] == ["MOUNTPOINT", *sorted(map(str, (first.path, second.path)))]
    assert lines[1].endswith("s3://bucket")


def test_top_on_a_terminal(store, mount):
    """It takes the second screen, shows the mount, and gives the first one back at q."""
    mounted = mount()
    ours, theirs = pty.openpty()
    top = subprocess.Popen([program(), "top", "--interval", "100ms"], env=mounted.env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""

    def shows(text):
        nonlocal seen
        if select.select([ours], [], [], 1)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:  # its end
                return text in seen
        return text in seen

    until(lambda: shows(b"MOUNTPOINT"), "the table is shown")
    os.write(ours, b"q")
    until(lambda: shows(b"\x1b[?1049l"), "the screen is given back")
    assert top.wait(timeout=30) == 0
    assert seen.startswith(b"\x1b[?1049h")
    os.close(ours)


def test_debug_bundle(store, mount, folder):
    """What helps is in it, and no key, wherever it might have come from."""
    store.put_generated("a", MIB, 1)
    keys = {"AWS_SESSION_TOKEN": "", "SHARDFS_TEST_X": "1", "UNRELATED": "hush-hush"}
    mounted = mount(env=keys, late_after="61s")
    compare(read_all(mounted.path / "a"), MIB, 1)
    with open(mounted.options["--log-file"], "a", encoding="utf-8") as log:
        log.write("a line with secret_access_key = hush-hush and https://me:hush-hush@host/ and AKIAHUSHHUSHHUSH1234\n")
    output = folder / "bundle.tar.gz"
    done = shardfs("debug", "bundle", mounted.path, "--output", output, env=mounted.env)
    assert done.returncode == 0 and done.stdout.strip() == str(output), done.stderr
    assert output.stat().st_mode & 0o777 == 0o600
    with tarfile.open(output) as tar:
        files = {member.name.partition("/")[2]: tar.extractfile(member).read().decode(errors="replace")
                 for member in tar.getmembers() if member.isfile()}
    everything = "".join(files.values())
    for secret in (store.secret_key, store.access_key, "hush-hush", "AKIAHUSH"):
        assert secret not in everything
    assert "AWS_SECRET_ACCESS_KEY=[removed]" in files["mount-0/variables.txt"]
    assert "61s" in files["mount-0/command.txt"]
    assert "is mounted on" in files["mount-0/log.txt"]
    assert json.loads(files["mount-0/stats-1.json"])["read_bytes"] == MIB
    assert json.loads(files["mount-0/stats-2.json"])["uptime_s"] > json.loads(files["mount-0/stats-1.json"])["uptime_s"]
    assert "libcurl" in files["machine.txt"] and os.uname().release in files["machine.txt"]
    assert str(mounted.path) in files["mounts.txt"]
    again = shardfs("debug", "bundle", "--output", output, env=mounted.env)
    assert again.returncode == 1 and str(output) in again.stderr  # nobody's file is replaced
    absent = shardfs("debug", "bundle", folder / "absent", env=mounted.env)
    assert absent.returncode == 1 and "absent" in absent.stderr


def test_configuration_is_as_generated():
    generated = shardfs("generate", "configuration").stdout
    assert (TOP / "docs" / "configuration.md").read_text() == generated
    options = set(re.findall(r"--[a-z-]+", shardfs("mount", "--help").stdout)) - {"--help", "--config"}
    assert {option for option in options if f"`{option}" in generated} >= options - {"--allow-other"}


def test_man_page_is_roff():
    page = shardfs("generate", "man").stdout
    assert page.startswith(".TH SHARDFS 1") and "\\-\\-cache\\-size" in page and ".SH EXIT STATUS" in page
    assert "generate" not in page
