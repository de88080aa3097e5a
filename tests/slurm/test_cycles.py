"""Prologs and epilogs in great number, without a Slurm in between, and daemons that are killed under them."""

import os
import signal
import statistics
import time

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import daemons, gone, mounts_below
from lib.waiting import until
from test_slurm_steps import Node, left_behind


@pytest.mark.limit_s(600)
def test_cycles_leave_nothing(store, folder):
    """200 jobs one after the other, every fourth with its daemon killed: 50."""
    store.put_generated("a", MIB, 1)
    node = Node(store, folder).site({"data": {"path": f"{folder}/data", "for-all-jobs": True}}, umount_timeout="2s")
    times = {"prolog": [], "epilog": []}
    for job in range(200):
        for which, call in (("prolog", node.prolog), ("epilog", node.epilog)):
            begun = time.monotonic()
            assert call(job).returncode == 0, node.output(job)
            times[which].append(time.monotonic() - begun)
            if which == "prolog":
                compare(read_all(folder / "data/a"), MIB, 1)
                if job % 4 == 3:
                    pid, = daemons()
                    os.kill(pid, signal.SIGKILL)
                    until(lambda pid=pid: gone(pid), "the daemon ends")
        assert not mounts_below(folder) and not daemons()
    assert not left_behind() and store.stats().gets <= 2
    for which, seconds in times.items():
        print(f"{which}: median {statistics.median(seconds):.3f} s, most {max(seconds):.3f} s")
