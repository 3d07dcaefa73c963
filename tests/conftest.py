"""Fixtures that all tests share, and which test process runs what.

At most two Spark processes live at once: tests that ask for the `spark` fixture share one
session in one test process, tests that start jobs of their own (marked `process`) run one
after the other in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same cases in every run; how many is the test's own choice.
settings.register_profile("tidemark", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("tidemark")


class OneSparkEach(LoadScopeScheduling):
    """Gives all files that share the warm session to one test process, and all that start jobs
    of their own to one; any other file to whichever is free.

    Not by xdist's own groups: its 3.8 names them in a way that pytest 9.2 does not see.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid.split("::")[0])


@cache
def _group_of(file: str) -> str:
    source = (Path(__file__).parent.parent / file).read_text()
    if "mark.process" in source:
        return "process"
    return "spark" if "spark: SparkSession" in source else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSparkEach:
    return OneSparkEach(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One warm session with the platform's own settings, on two cores."""

    from tests.runs import session_for_tests

    session: SparkSession = session_for_tests()
    yield session
    session.stop()
