"""Fixtures that all tests share, and which test process runs what.

At most two Spark processes live at once: tests that ask for the `spark` fixture share one
session in a test process, tests that start jobs of their own (marked `process`) run one after
the other in another, which may start a session of its own when they are done. Both kinds are
marked `engine` here, and so is what needs the broker: `make test-fast` leaves them out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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


# The long tests in parts, each for one sitting, by how the names of their files begin;
# `rest` are those of no other part. A test of `make test` is in none.
PARTS: dict[str, tuple[str, ...]] = {
    "losses": ("tests/end_to_end/test_losses",),
    "rows": ("tests/end_to_end/test_every_row", "tests/sources/contract/"),
    "operators": ("tests/operators/",),
    "kills": (
        "tests/end_to_end/test_killed",
        "tests/end_to_end/test_lost_processes",
        "tests/end_to_end/test_maintained_runs",
        "tests/end_to_end/test_two_jobs",
        "tests/end_to_end/test_unpublished_seals",
    ),
    "generations": (
        "tests/end_to_end/test_changes_of_a_generation",
        "tests/end_to_end/test_generations",
        "tests/end_to_end/test_migrations",
        "tests/end_to_end/test_rewinds",
    ),
    "rest": (),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=tuple(PARTS), help="of the long tests, only this part")


def part_of(nodeid: str) -> str:
    """The part of a long test."""
    named = (part for part, begins in PARTS.items() if nodeid.startswith(begins))
    return next(named, "rest")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("short" if "not long" in config.option.markexpr else "all")


# Which group each test belongs to that needs Spark: collected by the test processes, read by the
# one that gives out groups, which collects nothing itself.
_GROUPS = "tidemark/groups"
# Of what tests share for a session, what costs next to nothing to set up twice.
_CHEAP = frozenset({"spark", "tmp_path_factory", "request", "pytestconfig"})


class OneSparkEach(LoadScopeScheduling):
    """Gives each group of tests to one test process; a group without Spark is a file.

    Not by xdist's own groups: its 3.8 names them in a way that pytest 9.2 does not see.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._groups: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            self._groups = self.config.cache.get(_GROUPS, {})
        return self._groups.get(nodeid) or nodeid.split("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what starts an engine, and puts the groups into the order in which they are given out.

    First what needs none, cheap as it is; then all jobs, to the test process that is free first,
    which has no session yet; then what a session or a broker runs, the largest group first, so
    that no test process waits long for the other in the end.
    """
    if part := config.getoption("part"):
        long = [one for one in items if one.get_closest_marker("long")]
        items[:] = [one for one in long if part_of(one.nodeid) == part]
    groups: dict[str, str] = {}
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if item.get_closest_marker("process"):
            groups[item.nodeid] = "jobs"
        elif "spark" in fixtures or "broker" in fixtures:
            groups[item.nodeid] = _shared(item, fixtures) or f"spark {item.nodeid.split('::')[0]}"
        else:
            continue
        item.add_marker("engine")
    sizes = Counter(groups.values())

    def place(item: pytest.Item) -> tuple[int, int, str]:
        group = groups.get(item.nodeid)
        if group is None:
            return 0, 0, ""
        return (1, 0, group) if group == "jobs" else (2, -sizes[group], group)

    items.sort(key=place)
    if config.cache is not None:
        config.cache.set(_GROUPS, groups)


def _shared(item: pytest.Item, fixtures: list[str]) -> str | None:
    """The costly fixture of a whole session that a test has part in: set up by one process only."""
    definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    for name in sorted(set(fixtures) - _CHEAP):
        if any(definition.scope == "session" for definition in definitions.get(name, ())):
            return name
    return None


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
