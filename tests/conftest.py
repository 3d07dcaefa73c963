"""Fixtures that all tests share, and which test process runs what.

At most two Spark processes live at once: tests that ask for the `spark` fixture share one
session in a test process, tests that start jobs of their own (marked `process`) run one after
the other in another, which may start a session of its own when they are done.
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

    from broker.broker import Broker

# The same cases in every run. How many is the test's own choice; where it makes none, a run
# without the long tests takes a quarter of what a run of all takes.
settings.register_profile("all", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("short", parent=settings.get_profile("all"), max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("short" if "not long" in config.option.markexpr else "all")


# The longest work first, so that no test process waits for the other in the end: the first
# takes the jobs, the second the warm session; then each takes half of the whole runs in a
# session (xdist gives out the next group before the last two tests of the one before have
# ended). Then come the files without Spark, each for itself.
GROUPS = ("process", "spark", "runs", "more runs")


class OneSparkEach(LoadScopeScheduling):
    """Gives each group of files to one test process; any other file to whichever is free.

    Not by xdist's own groups: its 3.8 names them in a way that pytest 9.2 does not see.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(_file_of(nodeid))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The groups in their order, which is the one in which they are given out."""
    items.sort(key=lambda item: _place_of(_group_of(_file_of(item.nodeid))))


def _place_of(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


def _file_of(nodeid: str) -> str:
    return nodeid.split("::")[0]


@cache
def _group_of(file: str) -> str:
    source = (Path(__file__).parent.parent / file).read_text()
    if "mark.process" in source:
        return "process"
    if "spark: SparkSession" not in source and "import Worked" not in source:
        return file
    if "end_to_end" not in file:
        return "spark"
    return "runs" if Path(file).name < "test_l" else "more runs"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSparkEach:
    return OneSparkEach(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One warm session with the platform's own settings, on two cores."""

    from tests.kit.running import session_for_tests

    session: SparkSession = session_for_tests()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A Kafka broker of one node; topics are the test's own."""
    from tests.kit.kafka import started_broker

    with started_broker() as started:
        yield started
