"""`ops/runs`: one row for each run, also for a run that was killed after its publish."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, clicks, query
from tests.kit.windows import Windows, at, window
from tests.runs.pipelines import bronze
from tests.runs.test_result import RESULT, TABLE
from tidemark.errors import StorageUnavailable, TableLost
from tidemark.gold.pins import Late
from tidemark.gold.publish import publish_table
from tidemark.gold.published import publish_note
from tidemark.recompute.rewind.past_runs import past_runs
from tidemark.runs import recorded_runs
from tidemark.runs.recorded_runs import record_interrupted_run, record_run
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.recent_runs import recent_runs
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.result_file import RunError
from tidemark.version import WRITTEN_BY, told_version

STARTED = RESULT.started_at
GOOD = RESULT.model_copy(update={"outcome": "succeeded", "held": False, "error": None})


def rows(uri: str, columns: str = "run, outcome") -> list[tuple[Any, ...]]:
    table = DeltaTable(uri).to_pyarrow_table()
    return query(f"SELECT {columns} FROM runs ORDER BY ALL", runs=table)


@pytest.fixture
def runs(tmp_path: Path) -> str:
    return str(tmp_path / "ops" / "runs")


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (GOOD, "succeeded"),
        (RESULT, "failed"),
        (GOOD.model_copy(update={"held": True}), "held"),
    ],
)
def test_a_run_that_is_recorded_again_has_one_row(
    runs: str, result: RunResult, outcome: str
) -> None:
    record_run(OpsPlace(runs), result)
    version = DeltaTable(runs).version()
    record_run(OpsPlace(runs), result)
    assert rows(runs) == [(result.run_id, outcome)]
    assert DeltaTable(runs).version() == version


HELD = GOOD.model_copy(update={"held": True})
OUTCOMES = {"held": HELD, "failed": RESULT, "succeeded": GOOD}


@pytest.mark.parametrize("before", [[], ["other", "another"]])
@pytest.mark.parametrize(
    ("told", "last"),
    [
        (["held", "succeeded", "succeeded"], "succeeded"),
        (["held", "failed", "succeeded"], "succeeded"),
        (["held", "failed", "held"], "failed"),
        # What was published once is published, whatever a repetition says.
        (["held", "succeeded", "failed"], "succeeded"),
    ],
)
def test_a_run_has_one_row_which_tells_its_last_outcome(
    runs: str, told: list[str], last: str, before: list[str]
) -> None:
    for name in before:
        record_run(OpsPlace(runs), GOOD.model_copy(update={"run_id": name}))
    if before:
        # The run's file has rows of others too.
        record_run(OpsPlace(runs), OUTCOMES[told[0]])
        DeltaTable(runs).optimize.compact()
    for outcome in told:
        record_run(OpsPlace(runs), OUTCOMES[outcome])
    others = [(name, "succeeded") for name in before]
    assert rows(runs) == sorted([(GOOD.run_id, last), *others])


def test_a_run_that_failed_again_later_is_told_by_that(runs: str) -> None:
    error = RunError.of(StorageUnavailable("The disk is full."))
    later = {"error": error, "ended_at": RESULT.ended_at + timedelta(seconds=3)}
    for result in (RESULT, RESULT.model_copy(update=later), RESULT):
        record_run(OpsPlace(runs), result)
    assert rows(runs, "outcome, error_class, error") == [
        ("failed", "StorageUnavailable", "The disk is full.")
    ]


def test_the_row_of_a_published_run_is_written_without_the_files_of_others(runs: str) -> None:
    for name in ("one", "two"):
        record_run(OpsPlace(runs), GOOD.model_copy(update={"run_id": name}))
    before = set(DeltaTable(runs).file_uris())
    odd = {"run_id": "it's \\ é", "started_at": STARTED + timedelta(microseconds=123_457)}
    record_run(OpsPlace(runs), HELD.model_copy(update=odd))
    record_run(OpsPlace(runs), GOOD.model_copy(update=odd))
    assert before < set(DeltaTable(runs).file_uris())
    assert rows(runs)[0] == (odd["run_id"], "succeeded")
    assert len(rows(runs)) == 3
    assert DeltaTable(runs).history(1)[0]["operationMetrics"]["num_removed_files"] == 1


def test_each_try_of_a_run_has_its_row(runs: str) -> None:
    record_run(OpsPlace(runs), RESULT)
    later = {"started_at": STARTED + timedelta(minutes=1), "ended_at": STARTED + timedelta(hours=1)}
    record_run(OpsPlace(runs), GOOD.model_copy(update=later))
    assert rows(runs, "outcome") == [("failed",), ("succeeded",)]


def test_a_row_tells_what_the_result_tells(runs: str) -> None:
    facts = {"by": "ada, by Airflow", "dag": "clicks", "newest_event": STARTED, "reason": "why"}
    told = RESULT.model_copy(update=facts)
    tables = {name: one.model_copy(update={"open_windows": 4}) for name, one in told.tables.items()}
    record_run(OpsPlace(runs), told.model_copy(update={"tables": tables}))
    (row,) = DeltaTable(runs).to_pyarrow_table().to_pylist()
    assert {name: row[name] for name in facts} == facts
    assert dict(row["open_windows"]) == {"per_10m": 4}
    assert (row["rows_read"], row["rows_accepted"], row["rows_rejected"]) == (5, 3, 2)
    assert dict(row["reasons"]) == RESULT.rows.rejected
    assert dict(row["counted"]) == {"no key": 1}
    assert dict(row["batches"]) == {"ingest": 1, "per_10m": 2}
    assert dict(row["seconds"]) == {"session": 3.5}
    assert dict(row["versions"]) == {"bronze": 5, "rejects": 1}
    assert (row["error_class"], row["error"]) == ("RunFailed", "Größe „x“")
    (table,) = row["tables"]
    assert table["table"] == "per_10m"
    assert table["watermark_before"] is table["close_before"] is table["sealed_to"] is None
    assert table["close_after"] == datetime(2015, 5, 17, 19, 13, 20, 123_000, tzinfo=UTC)


def test_rows_tell_their_tidemark_beside_rows_of_before_and_a_former_build_adds_its_own(
    runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = recorded_runs.SCHEMA
    of_acts = ("by", "dag", "reason")
    later = (WRITTEN_BY, "reasons", "counted", "newest_event", "open_windows", *of_acts)
    before = pa.schema([column for column in now if column.name not in later])
    for number, schema in enumerate((before, now, before)):
        monkeypatch.setattr(recorded_runs, "SCHEMA", schema)
        record_run(OpsPlace(runs), GOOD.model_copy(update={"run_id": str(number)}))
    assert rows(runs, "run, tidemark") == [("0", None), ("1", told_version()), ("2", None)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A pipeline whose gold lies where its runs publish it."""
    return Place(tmp_path)


def publish(place: Place, run_id: str, started: datetime) -> None:
    """A publish, without the row that follows it."""
    windows = place.windows()
    windows.change(window(at(10), key=run_id, total=1))
    pins = windows.pin(None)
    note = publish_note(run_id, started)
    publish_table(
        windows.operator, pins, TablePlace(windows.gold_uri), TablePlace(windows.changes_uri), note
    )


def _fine() -> None:
    return None


def interrupted(place: Place) -> None:
    record_interrupted_run(place.pipeline, place.warehouse)


def test_before_the_first_publish_nobody_was_interrupted(place: Place) -> None:
    interrupted(place)
    assert not Path(place.places.runs).exists()


def test_a_run_that_was_killed_after_its_publish_gets_its_row_by_the_next_one(
    place: Place,
) -> None:
    publish(place, "killed", STARTED)
    interrupted(place)
    interrupted(place)
    assert rows(place.places.runs) == [("killed", "interrupted")]
    (row,) = DeltaTable(place.places.runs).to_pyarrow_table().to_pylist()
    assert row["started_at"] == STARTED
    assert [(t["table"], t["gold_version"]) for t in row["tables"]] == [("per_10m", 1)]


@pytest.mark.parametrize("result", [GOOD, RESULT])
def test_a_run_that_told_its_end_was_not_interrupted(place: Place, result: RunResult) -> None:
    publish(place, result.run_id, STARTED)
    record_run(place.warehouse.runs, result)
    interrupted(place)
    assert len(rows(place.places.runs)) == 1


def test_a_run_whose_publish_step_was_killed_is_interrupted_and_keeps_what_it_counted(
    place: Place,
) -> None:
    record_run(place.warehouse.runs, HELD)
    (held,) = DeltaTable(place.places.runs).to_pyarrow_table().to_pylist()
    publish(place, GOOD.run_id, STARTED)
    interrupted(place)
    (row,) = DeltaTable(place.places.runs).to_pyarrow_table().to_pylist()
    assert row["outcome"] == "interrupted"
    ((of_held,), (of_row,)) = held.pop("tables"), row.pop("tables")
    assert of_row["gold_version"] == 1
    told = {"gold_version": None, "windows_published": None}
    assert {**of_row, **told} == {**of_held, **told}
    told = {"outcome", "trigger", "written_at"}
    assert [name for name in held if held[name] != row[name] and name not in told] == []
    (shown,) = recent_runs(DeltaTable(place.places.runs), place.name, 1)
    assert (shown.counted, shown.read) == (True, held["rows_read"])
    assert shown.windows_published == 1
    # A repeated publish tells all of it.
    record_run(place.warehouse.runs, GOOD)
    assert rows(place.places.runs, "outcome") == [("succeeded",)]


@pytest.mark.parametrize("step", ["validate", "publish"])
def test_a_failed_run_that_published_behind_its_row_is_interrupted_unless_its_publish_failed(
    place: Place, step: str
) -> None:
    failed = RESULT.model_copy(update={"seconds": {"session": 3.5, step: 0.5}})
    record_run(place.warehouse.runs, failed)
    publish(place, RESULT.run_id, STARTED)
    interrupted(place)
    version = DeltaTable(place.places.runs).version()
    interrupted(place)
    assert DeltaTable(place.places.runs).version() == version
    (shown,) = recent_runs(DeltaTable(place.places.runs), place.name, 1)
    assert (shown.counted, shown.read, shown.windows_published) == (True, 5, 1)
    told = ("failed", "RunFailed", "Größe „x“")
    expected = told if step == "publish" else ("interrupted", None, None)
    assert (shown.outcome, shown.error_class, shown.error) == expected


def test_an_interrupted_run_whose_further_publish_fails_has_failed_and_keeps_what_it_published(
    place: Place,
) -> None:
    failed = RESULT.model_copy(update={"seconds": {"session": 3.5, "validate": 0.5}})
    record_run(place.warehouse.runs, failed)
    publish(place, RESULT.run_id, STARTED)
    interrupted(place)
    again = {
        "error": RunError.of(TableLost("Gold was changed by hand.")),
        "ended_at": RESULT.ended_at + timedelta(minutes=5),
    }
    record_run(place.warehouse.runs, failed.model_copy(update=again))
    for _ in range(2):
        (shown,) = recent_runs(DeltaTable(place.places.runs), place.name, 1)
        assert (shown.outcome, shown.error_class) == ("failed", "TableLost")
        assert (shown.counted, shown.read, shown.windows_published) == (True, 5, 1)
        interrupted(place)


def test_a_run_that_was_killed_while_it_published_is_none_to_go_back_to(place: Place) -> None:
    bronze(place, at(10))
    versions = {"bronze": 0, "rejects": 0}
    held = GOOD.model_copy(update={"held": True, "pipeline": place.name, "versions": versions})
    record_run(place.warehouse.runs, held)
    publish(place, held.run_id, held.started_at)
    interrupted(place)
    found = past_runs(place.pipeline, place.warehouse)
    assert (found.runs, found.others) == (
        (),
        {held.run_id: "it was killed while it published, and nobody knows what of it"},
    )


def test_a_second_try_that_was_killed_is_told_apart_from_the_first(place: Place) -> None:
    record_run(place.warehouse.runs, RESULT)
    publish(place, RESULT.run_id, STARTED + timedelta(minutes=5))
    interrupted(place)
    assert rows(place.places.runs, "outcome, started_at = (SELECT max(started_at) FROM runs)") == [
        ("failed", False),
        ("interrupted", True),
    ]


def test_a_try_that_was_killed_tells_only_the_tables_that_it_published_itself(
    tmp_path: Path,
) -> None:
    table = clicks()["tables"]["per_10m"]
    place = Place(tmp_path, clicks(tables={"a": table, "b": table}))
    later = STARTED + timedelta(minutes=5)
    for name, started in (("a", STARTED), ("b", later)):
        windows = Windows(Path(place.places.gold(name)).parent)
        windows.change(window(at(10), key=name, total=1))
        windows.publish(windows.pin(None), "killed", began=started)
        interrupted(place)
    found = DeltaTable(place.places.runs).to_pyarrow_table().to_pylist()
    tables = {row["started_at"]: [one["table"] for one in row["tables"]] for row in found}
    assert tables == {STARTED: ["a"], later: ["b"]}


def test_commits_of_maintenance_do_not_hide_the_publish(place: Place) -> None:
    publish(place, "killed", STARTED)
    gold = DeltaTable(place.places.gold("per_10m"))
    for _ in range(5):
        gold.alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})
    interrupted(place)
    assert rows(place.places.runs) == [("killed", "interrupted")]


def test_windows_corrected_for_a_lookup_are_counted_with_those_for_late_rows(runs: str) -> None:
    table = TABLE.model_copy(update={"late": Late(corrected=2), "corrected_besides": 4})
    record_run(OpsPlace(runs), GOOD.model_copy(update={"tables": {"per_10m": table}}))
    assert rows(runs, "tables[1].corrected_windows") == [(6,)]
