"""What each kind of check says of real tables, where it is kept and where it is broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from tests.kit.windows import at, window
from tests.quality.held import NOW, Held, bad_and_good, verdict_of
from tests.runs.pipelines import bronze
from tidemark.gold.plan import GoldState, plan_publish
from tidemark.ledger.ledger import INGEST, LedgerLine, write_ledger
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.settings.settings import Checks
from tidemark.quality.planned_rows import PlannedRows
from tidemark.quality.validate import (
    KEYS_UNIQUE,
    LEDGER_BALANCED,
    NO_STEP_BACK,
    NONE_OPEN,
    judge_table,
)
from tidemark.runs.recorded_runs import record_run
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.rows import Rows

CONDITIONS = {
    "total > 0": 1,
    "total > 0 and key is not null": 2,
    "total is not null": 1,
    "rows >= 1 and revision = 0": 0,
    "status = 'provisional' and window_end > window_start": 0,
    "window_start >= timestamp '2026-07-01 10:10:00Z'": 2,
    "window_end - interval 10 minutes = window_start": 0,
    "window_date = date '2026-07-01' and rows >= 1": 0,
    "key in ('a', 'b')": 0,
    "coalesce(total, 0) >= 0": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", list(CONDITIONS))
def test_a_row_is_bad_where_its_condition_is_false_and_not_where_it_is_null(
    text: str, tmp_path: Path
) -> None:
    held = Held(tmp_path, [{"warn": text}])
    found = verdict_of(held.gated(held.run(*bad_and_good())), text)
    assert (found.unexpected, found.rows) == (CONDITIONS[text], 3)
    assert found.passed == (CONDITIONS[text] == 0)
    assert len(found.examples) == CONDITIONS[text]


def test_a_condition_that_cannot_be_told_is_broken_and_says_why(tmp_path: Path) -> None:
    held = Held(
        tmp_path, [{"fail": "abs(total * 9223372036854775807) > 1"}, {"fail": "total > -10"}]
    )
    gated = held.gated(held.run(*bad_and_good()))
    found = verdict_of(gated, "abs")
    assert not found.passed
    assert found.observed.startswith("nobody can tell: Out of Range Error")
    assert verdict_of(gated, "total").passed


# A check, and what only its own question has.
ASKING: dict[str, tuple[Any, str]] = {
    "a condition": ("total >= 0", "AND NOT ("),
    "an expectation": ({"ExpectColumnValuesToBeUnique": {"column": "key"}}, "IS NOT TRUE"),
    "gaps": ({"gaps": {"every": "1 hour"}}, "approx_count_distinct"),
}


@pytest.mark.parametrize("kind", list(ASKING))
def test_a_disk_that_is_full_is_no_verdict(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, words = ASKING[kind]
    count = PlannedRows.count

    def without_room(rows: PlannedRows, sql: str, values: Sequence[Any] = ()) -> int:
        if words in sql:
            raise duckdb.IOException("IO Error: Could not write file: No space left on device")
        return count(rows, sql, values)

    monkeypatch.setattr(PlannedRows, "count", without_room)
    held = Held(tmp_path, [{"fail": check}])
    gated = held.gated(held.run(*bad_and_good()))
    assert gated.run.error is not None
    assert gated.run.error.type == "MemoryExhausted"
    assert "a larger disk" in gated.run.error.message
    assert gated.validation.verdicts == ()


def test_examples_are_few_and_their_values_are_cut(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"fail": "total > 0"}])
    rows = [window(at(10), key=f"{number:02}" + "x" * 500, total=-1) for number in range(30)]
    gated = held.gated(held.run(*rows))
    found = verdict_of(gated, "total")
    assert (found.unexpected, len(found.examples)) == (30, 10)
    assert {len(one["key"]) for one in found.examples} == {201}
    assert gated.run.error is not None
    assert "… and 27 more" in gated.run.error.message


def test_examples_are_the_first_by_their_keys_and_a_repeat_shows_the_same(tmp_path: Path) -> None:
    unique = {"ExpectColumnValuesToBeUnique": {"column": "total"}}
    held = Held(tmp_path, [{"warn": "total > 0"}, {"warn": unique}])
    rows = [window(at(10), key=f"{number:04}", total=-1) for number in reversed(range(3000))]
    run = held.run(*rows)
    for later in range(2):
        gated = held.gated(run, now=NOW + timedelta(minutes=later))
        for check in ("total", "ExpectColumnValuesToBeUnique"):
            shown = [one["key"] for one in verdict_of(gated, check).examples]
            assert shown == [f"{number:04}" for number in range(10)]
    assert len({one["validation"] for one in held.verdicts()}) == 1


def test_only_rows_that_publish_would_write_are_looked_at(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"fail": "total > 0"}])
    held.publish(held.run(*bad_and_good(), run_id="before"))
    gated = held.gated(held.run(window(at(10), key="a", total=7), run_id="next"))
    assert (verdict_of(gated, "total").rows, gated.run.error) == (1, None)


def test_built_in_checks_run_without_being_asked(tmp_path: Path) -> None:
    held = Held(tmp_path, [])
    gated = held.gated(held.run(*bad_and_good(), close=at(10, 10)))
    told = {one.check: (one.severity, one.passed) for one in gated.validation.verdicts}
    names = (KEYS_UNIQUE, NONE_OPEN, NO_STEP_BACK, LEDGER_BALANCED)
    assert told == dict.fromkeys(names, ("fail", True))


def test_a_window_that_gold_has_twice_keeps_the_run_back(tmp_path: Path) -> None:
    held = Held(tmp_path, [])
    held.publish(held.run(*bad_and_good(), run_id="first"))
    gold = held.windows.gold_table()
    again = gold.to_pyarrow_dataset().to_table()
    write_deltalake(gold, again.filter(pc.equal(again["key"], "b")), mode="append")
    gated = held.gated(held.run(window(at(10), key="a", total=7), run_id="next"))
    found = verdict_of(gated, KEYS_UNIQUE)
    assert (found.passed, found.unexpected) == (False, 1)
    assert found.examples == ({"window_start": at(10).isoformat(), "key": "b", "times": 2},)
    assert gated.run.error is not None


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[PlannedRows]:
    """What a wrong publish would write: publish itself never does."""
    held = Held(tmp_path, [])
    pins = held.windows.pin(at(10, 10))
    plan = plan_publish(GoldState(0, 0, {"bronze": 0}, 0, 1), pins)
    operator = operator_of(held.place.pipeline, "per_10m")
    schema = schema_of(held.windows.gold_table())
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        start = f"TIMESTAMPTZ '{at(10).isoformat()}'"
        window = f"{start} AS window_start, {start} + INTERVAL 10 MINUTES AS window_end, 'a' AS key"
        for name, state in (
            ("written", "'provisional' AS status, 1 AS revision, false AS _gone"),
            ("before", "'final' AS status, 2 AS revision"),
        ):
            connection.execute(f"CREATE TABLE {name} AS SELECT {window}, {state}")
        yield PlannedRows("per_10m", operator, plan, schema, connection)


def test_a_closed_window_that_stays_open_and_a_revision_that_goes_back_are_found(
    planned: PlannedRows,
) -> None:
    told = {one.check: one.unexpected for one in judge_table(planned)}
    assert told == {KEYS_UNIQUE: 0, NONE_OPEN: 1, NO_STEP_BACK: 1}


def test_a_ledger_that_does_not_balance_keeps_the_run_back(tmp_path: Path) -> None:
    held = Held(tmp_path, [])
    line = LedgerLine(INGEST, "query", 0, batch=0, read=3, accepted=1, rejected=1)
    write_ledger(held.place.warehouse.ledger, "clicks", "run", 0, [line], at(12))
    gated = held.gated(held.run(*bad_and_good()))
    assert not verdict_of(gated, LEDGER_BALANCED).passed
    assert gated.run.error is not None
    assert "difference 1" in gated.run.error.message


@pytest.mark.parametrize(("at_most", "passed"), [(0.02, True), (0.019, False)])
def test_the_share_of_rejects_is_of_the_rows_read(
    at_most: float, passed: bool, tmp_path: Path
) -> None:
    held = Held(tmp_path, [], [{"fail": {"rejected_share": {"at_most": at_most}}}])
    gated = held.gated(held.run(*bad_and_good()))
    found = verdict_of(gated, "rejected_share")
    assert (found.passed, found.observed, found.unexpected) == (passed, "0.02 (2 of 100 rows)", 2)
    assert (gated.run.error is None) == passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "passed"),
    [
        ({"last_runs": 2, "at_least": 2}, True),
        ({"last_runs": 2, "at_least": 2.01}, False),
        ({"last_runs": 2, "at_most": 1.99}, False),
        ({"last_runs": 3, "at_least": 0.33, "at_most": 0.34}, True),
        ({"last_runs": 100, "at_most": 0.34}, True),
    ],
)
def test_rows_per_run_are_held_to_the_mean_of_the_last_runs_that_read_any(
    rule: dict[str, Any], passed: bool, tmp_path: Path
) -> None:
    held = Held(tmp_path, [], [{"warn": {"rows_per_run": rule}}])
    for hours, read in enumerate((40, 0, 60, 0, 0, 800)):
        told = {"rows": Rows(read=read, accepted=read), "held": False}
        before = held.run(run_id=f"{hours}", began=at(11) - timedelta(hours=hours), told=told)
        record_run(held.place.warehouse.runs, before)
    found = verdict_of(held.gated(held.run()), "rows_per_run")
    assert found.passed == passed, found.observed


def test_the_first_run_has_nothing_to_be_held_to(tmp_path: Path) -> None:
    held = Held(tmp_path, [], [{"fail": {"rows_per_run": {"at_least": 1}}}])
    found = verdict_of(held.gated(held.run()), "rows_per_run")
    assert (found.passed, found.observed) == (True, "100 rows, no earlier run read any")


@pytest.mark.parametrize(
    ("newest", "passed"), [(at(11), True), (at(10, 59), False), (at(12, 30), True), (None, False)]
)
def test_freshness_is_told_by_the_time_that_the_run_stands_for(
    newest: datetime | None, passed: bool, tmp_path: Path
) -> None:
    held = Held(tmp_path, [], [{"fail": {"freshness": {"at_most": "1 hour"}}}])
    if newest:
        bronze(held.place, at(9), newest)
    found = verdict_of(held.gated(held.run(), NOW), "freshness")
    assert found.passed == passed
    assert found.check == "freshness at most 1 hour"


EXPECTATIONS: list[tuple[str, dict[str, Any], bool, int | None]] = [
    ("ExpectColumnMaxToBeBetween", {"column": "total", "max_value": 5}, True, None),
    ("ExpectColumnMaxToBeBetween", {"column": "total", "max_value": 4}, False, None),
    ("ExpectColumnValuesToNotBeNull", {"column": "key"}, False, 1),
    ("ExpectColumnValuesToNotBeNull", {"column": "key", "mostly": 0.6}, True, 1),
    ("ExpectColumnValuesToBeInSet", {"column": "key", "value_set": ["a"]}, False, 1),
    ("ExpectTableRowCountToBeBetween", {"min_value": 3, "max_value": 3}, True, None),
    (
        "ExpectColumnMeanToBeBetween",
        {"column": "total", "min_value": 1, "max_value": 1},
        True,
        None,
    ),
    ("ExpectCompoundColumnsToBeUnique", {"column_list": ["window_start", "key"]}, True, 0),
]


def test_expectations_are_told_each_for_itself_with_their_pages(tmp_path: Path) -> None:
    unfit = "abs(total * 9223372036854775807) > 1"
    checks = [{"warn": {name: arguments}} for name, arguments, *_ in EXPECTATIONS]
    checks.append({"fail": {"ExpectTableRowCountToEqual": {"value": 3}}, "where": unfit})
    held = Held(tmp_path, [*checks, {"fail": "rows > 0"}])
    gated = held.gated(held.run(*bad_and_good()))
    told = [one for one in gated.validation.verdicts if one.check.startswith("Expect")]
    assert [(one.passed, one.unexpected) for one in told[:-1]] == [
        (passed, unexpected) for _, _, passed, unexpected in EXPECTATIONS
    ]
    assert told[0].check == "ExpectColumnMaxToBeBetween(column='total', max_value=5)"
    assert told[0].observed == "5"
    assert told[4].examples[0]["key"] == "b"
    assert not told[-1].passed
    assert told[-1].observed.startswith("nobody can tell: ")
    index = gated.validation.data_docs
    assert index == held.place.places.docs_of("run") + "/index.html"
    assert "5 of 9 expectations met" in Path(index).read_text()
    page = Path(index).with_name("table-per_10m.html").read_text()
    assert "values must be less than or equal to" in page or "maximum" in page
    assert {row["data_docs"] for row in held.verdicts()} == {index}


@pytest.mark.slow
def test_data_docs_of_the_oldest_runs_go(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"warn": {"ExpectTableRowCountToBeBetween": {"min_value": 1}}}])
    for number in range(4):
        run = held.run(window(at(10), key="a", total=number), run_id=f"run {number}")
        held.gated(run, checks=Checks(keep_docs=2))
    kept = sorted(folder.name for folder in Path(held.place.places.data_docs).iterdir())
    assert [name for name in kept if any((Path(held.place.places.data_docs) / name).iterdir())] == [
        "run_2",
        "run_3",
    ]
