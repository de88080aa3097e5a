"""The suite `servers`: the program against S3 servers that others wrote. Each is started with signatures checked."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))

from lib.fixtures import *  # noqa: E402,F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from independent import SERVERS  # noqa: E402


@pytest.fixture(scope="session", params=SERVERS, ids=lambda server: server.name)
def server(request, run_folder):
    """One for all tests; each test has a bucket of its own."""
    why_not = request.param.missing()
    if why_not:
        pytest.skip(f"{request.param.name}: {why_not}")
    folder = run_folder / request.param.name
    folder.mkdir()
    with request.param(folder) as running:
        yield running


@pytest.fixture
def store(server):
    return server.fresh_bucket()
