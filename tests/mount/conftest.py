"""The suite `mount`: the program against the test store."""

import pytest

from lib.fixtures import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from lib.teststore import TestStore


@pytest.fixture
def store():
    with TestStore() as running:
        yield running
