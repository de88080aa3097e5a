"""The suite `package`: what tools/package makes is installed, upgraded and removed, in a folder of its own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))

from lib.fixtures import *  # noqa: E402,F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from lib.teststore import TestStore  # noqa: E402


@pytest.fixture
def store():
    with TestStore() as running:
        yield running
