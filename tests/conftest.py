"""Fixtures that all tests share, and which test process runs what.

At most two Spark processes live at once: tests that ask for the `spark` fixture share one
session in a test process, tests that start jobs of their own (marked `process`) run one after
the other in another, which may start a session of its own when they are done. Both kinds are
marked `engine` here, and so is what needs the broker: `make test-fast` leaves them out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tidemark.storage import duckdb_in_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

# The same cases in every run. How many is the test's own choice; where it makes none, a run
# without the long tests takes a quarter of what a run of all takes.
settings.register_profile("all", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("short", parent=settings.get_profile("all"), max_examples=25)


# Answers of DuckDB that many rows would make a file of are one here from some hundreds on. By no
# fixture: all tests would share it, and one test process get all of them.
duckdb_in_utc.MOST_IN_MEMORY = 16 * 1024

# The long tests in parts, each for one sitting, by how the names of their files begin: the first
# that fits. `rest` are those of no other part. A test of `make test` is in none.
PARTS: dict[str, tuple[str, ...]] = {
    "losses": ("tests/end_to_end/test_losses",),
    "rows": ("tests/end_to_end/test_every_row", "tests/sources/contract/"),
    "joins": (
        "tests/operators/contract/test_joins",
        "tests/operators/contract/test_losses_of_joins",
        "tests/operators/test_joins_in_bronze",
    ),
    "kinds": ("tests/operators/contract/test_operator_kinds",),
    "acts": ("tests/operators/contract/test_random_acts",),
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
        "tests/end_to_end/test_erasures",
        "tests/end_to_end/test_followed",
        "tests/end_to_end/test_generations",
        "tests/end_to_end/test_migrations",
        "tests/end_to_end/test_retractions",
        "tests/end_to_end/test_rewinds",
    ),
    "browser": ("tests/page/test_in_a_browser",),
    "rest": (),
}


# Of these files `make test` runs the tests that have this in their names, as witnesses of what all
# of them show; None: no test. The others, and what is slow without an engine, are the part
# `second`, which `.ci/run` runs too. Of files that are not named here `make test` runs all.
SECOND = "second"
WITNESSES: dict[str, str | None] = {
    "tests/bench/test_bench.py": None,
    "tests/broker/test_broker.py": None,
    "tests/broker/test_kafka_kit.py": None,
    "tests/checkpoint/test_delta_offsets.py": None,
    "tests/cli/test_doctor.py": None,
    "tests/cli/test_ledger.py": None,
    "tests/cli/test_run.py": None,
    "tests/cli/test_try_where_rows_are.py": None,
    "tests/end_to_end/test_airflow_shared.py": None,
    "tests/end_to_end/test_backup.py": None,
    "tests/end_to_end/test_batches_of_bytes.py": None,
    "tests/end_to_end/test_broken_tables_of_ops.py": None,
    "tests/end_to_end/test_changed_pipeline.py": "what_is_refused_leaves_everything",
    "tests/end_to_end/test_cluster.py": None,
    "tests/end_to_end/test_dropped_rejects.py": None,
    "tests/end_to_end/test_duplicates.py": "one_of_its_batch_or_of_another",
    "tests/end_to_end/test_erasures.py": "no_text_can_be_asked",
    "tests/end_to_end/test_failing_joins.py": None,
    "tests/end_to_end/test_failing_measures.py": "dies_while_it_sets_windows_aside",
    "tests/end_to_end/test_folds.py": None,
    "tests/end_to_end/test_followed_changes.py": "first_run_over",
    "tests/end_to_end/test_followed_messages.py": None,
    "tests/end_to_end/test_formats.py": "a_bad_file_is_a_reject",
    "tests/end_to_end/test_generations.py": "a_new_measure_is_no_correction",
    "tests/end_to_end/test_jumps.py": "a_jump_stays_one",
    "tests/end_to_end/test_late_rows_page.py": None,
    "tests/end_to_end/test_ledger_page.py": None,
    "tests/end_to_end/test_listed_files.py": None,
    "tests/end_to_end/test_many_rows.py": None,
    "tests/end_to_end/test_mended_rejects.py": None,
    "tests/end_to_end/test_migrations_beside_runs.py": None,
    "tests/end_to_end/test_moved_root.py": None,
    "tests/end_to_end/test_moved_clocks.py": None,
    "tests/end_to_end/test_notebook_runs.py": "event_loop",
    "tests/end_to_end/test_output_modes.py": "died_before_append_mode",
    "tests/end_to_end/test_passed_over.py": None,
    "tests/end_to_end/test_places.py": None,
    "tests/end_to_end/test_reading_gold.py": None,
    "tests/end_to_end/test_recomputed_tables.py": "no_state_and_one_batch",
    "tests/end_to_end/test_records.py": "told_apart_by_their_places",
    "tests/end_to_end/test_rejected_again.py": None,
    "tests/end_to_end/test_removed_pipeline.py": None,
    "tests/end_to_end/test_renamed_pipeline.py": None,
    "tests/end_to_end/test_replays.py": "failed_between_bronze_and_rejects",
    "tests/end_to_end/test_restored_apart.py": "what_a_killed_run_left",
    "tests/end_to_end/test_retractions.py": "brought_back_at_once",
    "tests/end_to_end/test_rewinds_without_files.py": None,
    "tests/end_to_end/test_row_rules.py": "a_look_at_each_row_gives[delta-True-True",
    "tests/end_to_end/test_state_repartition.py": None,
    "tests/end_to_end/test_widening.py": None,
    "tests/operators/contract/test_followed_kinds.py": None,
    "tests/operators/contract/test_joins.py": "nothing",
    "tests/operators/contract/test_joins_of_two.py": None,
    "tests/operators/contract/test_operator_kinds.py": "folds",
    "tests/operators/contract/test_random_acts.py": None,
    "tests/operators/contract/test_retracted_kinds.py": None,
    "tests/operators/contract/test_widened_kinds.py": None,
    "tests/operators/test_sessions_and_the_engine.py": None,
    "tests/quality/test_validation_in_spark.py": "find_the_same_rows",
    "tests/samples/test_sample_flights.py": None,
    "tests/sources/contract/test_every_kind.py": None,
    "tests/sources/delta/test_tables_by_spark.py": None,
    "tests/sources/kafka/test_brokers_in_trouble.py": None,
    "tests/sources/kafka/test_lost_topics.py": "expired_before_they_were_read",
    "tests/sources/kafka/test_offsets_in_the_ledger.py": None,
    "tests/sources/kafka/test_registry_topics.py": None,
    "tests/sources/kafka/test_repeated_batches.py": None,
    "tests/sources/test_unread_files.py": "recursive=True, name='[!a]",
    "tests/story/test_stories_of_runs.py": "each_value_is_told",
    "tests/streaming/test_audit.py": "writes_nothing",
    "tests/streaming/test_backfill.py": "come_into_gold_as_one_commit",
    "tests/streaming/test_changed_queries.py": None,
    "tests/streaming/test_compaction.py": "goes_on_as_one_that_was_left_alone[HDFS",
    "tests/streaming/test_derive_properties.py": None,
    "tests/streaming/test_duplicates_properties.py": "reads_some_of_the_files",
    "tests/streaming/test_exhausted.py": None,
    "tests/streaming/test_judged_in_tasks.py": None,
    "tests/streaming/test_pipeline_compaction.py": None,
    "tests/streaming/test_row_rules.py": "names_the_row_and_says",
    "tests/streaming/test_sessions_of_many.py": "nothing_of_a_session",
    "tests/streaming/test_state_of_joins_and_folds.py": None,
    "tests/streaming/test_state_settings.py": None,
    "tests/upkeep/test_restart_after_housekeeping.py": "hdfs",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "only this part of the long tests, or of those beside what `make test` runs"
    parser.addoption("--part", choices=(*PARTS, SECOND), help=help_text)
    parser.addoption("--share", default="1/1", help="of its files only these, as 2/3: a third")


def part_of(nodeid: str) -> str:
    """The part of a long test."""
    named = (part for part, begins in PARTS.items() if nodeid.startswith(begins))
    return next(named, "rest")


def pytest_configure(config: pytest.Config) -> None:
    short = "not long" in config.option.markexpr or config.getoption("part") == SECOND
    settings.load_profile("short" if short else "all")
    # Of connections that end with the process, when what a test has caught is closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)


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
        items[:] = _share([one for one in items if _part_of(one) == part], config)
    groups: dict[str, str] = {}
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if _part_of(item) == SECOND:
            item.add_marker(SECOND)
        if item.get_closest_marker("process"):
            groups[item.nodeid] = "jobs"
        elif "spark" in fixtures or "broker" in fixtures:
            groups[item.nodeid] = _shared(item, fixtures) or f"spark {item.nodeid.split('::')[0]}"
        else:
            continue
        item.add_marker("engine")
    if len(set(groups.values())) == 1:
        # One file for both test processes, as the part `kinds` is.
        engine = [item for item in items if item.nodeid in groups]
        groups = {item.nodeid: f"{groups[item.nodeid]} {_kind(item)}" for item in engine}
    sizes = Counter(groups.values())

    def place(item: pytest.Item) -> tuple[int, int, str]:
        group = groups.get(item.nodeid)
        if group is None:
            return 0, 0, ""
        return (1, 0, group) if group == "jobs" else (2, -sizes[group], group)

    items.sort(key=place)
    if config.cache is not None:
        config.cache.set(_GROUPS, groups)


def _kind(item: pytest.Item) -> str:
    """The kind of operator that a test is of; tests of one share what was run."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return str(getattr(kind := params.get("kind", params.get("ran", "")), "name", kind))


def _share(items: list[pytest.Item], config: pytest.Config) -> list[pytest.Item]:
    """The tests of each n-th file, as `--share` says."""
    number, of = map(int, config.getoption("share").split("/"))
    if not 1 <= number <= of:
        raise pytest.UsageError(f"--share {number}/{of} is none: 1/{of} to {of}/{of}")
    files = sorted({one.path for one in items})
    return [one for one in items if files.index(one.path) % of == number - 1]


def _part_of(item: pytest.Item) -> str | None:
    """The part that a test is in; None for those of `make test`."""
    if item.get_closest_marker("long"):
        return part_of(item.nodeid)
    if item.get_closest_marker(SECOND):
        return SECOND
    fixtures = getattr(item, "fixturenames", [])
    if not (item.get_closest_marker("process") or "spark" in fixtures or "broker" in fixtures):
        return SECOND if item.get_closest_marker("slow") else None
    witness = WITNESSES.get(item.nodeid.split("::")[0], "")
    return None if witness is not None and witness in item.nodeid else SECOND


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
