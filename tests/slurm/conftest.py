"""The suite `slurm`: Debian's Slurm with munge, one controller and two nodes on this host, and the packaged scripts."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))

from lib.fixtures import *  # noqa: E402,F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from lib.teststore import TestStore  # noqa: E402
from cluster import Cluster  # noqa: E402


@pytest.fixture(scope="session")
def running_cluster(run_folder):
    folder = run_folder / "cluster"
    folder.mkdir()
    with Cluster(folder) as running:
        yield running


@pytest.fixture
def cluster(running_cluster, store):
    running_cluster.fresh(store)
    yield running_cluster
    running_cluster.cancel_all()


@pytest.fixture
def store():
    with TestStore() as running:
        yield running
