"""Tables and checkpoints that were removed, restored, replaced or changed by hand.

After the next run, and the one after: gold equals the batch aggregate of all landed rows, or the
run stopped, changed nothing, and said which place and why.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tests.end_to_end.generations import migrate
from tests.kit.running import SCHEDULED, Place, clicks, query, quiet, run_warm
from tests.streaming.audits import audit
from tidemark.cli.status_report import print_pipeline
from tidemark.errors import AcceptanceRefused
from tidemark.runs.losses import find_losses
from tidemark.runs.pipeline_lease import fence_pipeline
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.storage.delta.notes import AcceptedNote, note_of
from tidemark.storage.result_file import write_result
from tidemark.streaming.jobs.stream import run_once
from tidemark.upkeep.accept_changes import accept_changes
from tidemark.upkeep.maintenance.maintain import maintain_pipeline

MODES = (
    "update",
    pytest.param("append", marks=pytest.mark.long),
    pytest.param("complete", marks=pytest.mark.long),
)
LAST = 3


def rows(number: int) -> list[dict[str, Any] | str]:
    """A file of one hour, with a row of the hour before, which is late, and a rejected line."""
    times = [f"2026-07-01T{9 + number:02}:{minute:02}:00Z" for minute in range(0, 60, 9)]
    late = f"2026-07-01T{8 + number:02}:05:00Z"
    found: list[dict[str, Any] | str] = [
        {"at": time, "key": key, "amount": number} for time in (*times, late) for key in "ab"
    ]
    return [*found, "not JSON"]


@dataclass(frozen=True)
class History:
    """A pipeline in one output mode after each of its runs, as copies of its root, and what
    another pipeline of the same file left."""

    place: Place
    copies: Path
    other: Place

    def at(self, run: int) -> Path:
        return self.copies / str(run)

    def back(self, run: int = LAST) -> Place:
        """All as it was after that run, where it was."""
        shutil.rmtree(self.place.root, ignore_errors=True)
        shutil.copytree(self.at(run), self.place.root)
        return self.place


def run_history(spark: SparkSession, folder: Path, mode: str) -> History:
    """For the fixture `history`, which two files have."""
    table = clicks()["tables"]["per_10m"] | {"output_mode": mode}
    if mode == "complete":
        table["accept_unbounded_state"] = True
    place = Place(folder / "root", clicks(tables={"per_10m": table}))
    other = Place(folder / "other", clicks(tables={"per_10m": table}))
    for number in range(1, LAST + 1):
        for one in (place, other):
            one.land(f"{number}.json", rows(number))
            assert run_warm(spark, one, f"run{number}").error is None
        shutil.copytree(place.root, folder / "copies" / str(number))
    # The next run has something new to read.
    place.land("new.json", rows(LAST + 1))
    shutil.copytree(place.root / "landing", folder / "landing")
    for number in range(1, LAST + 1):
        shutil.rmtree(folder / "copies" / str(number) / "landing")
        shutil.copytree(folder / "landing", folder / "copies" / str(number) / "landing")
    return History(place, folder / "copies", other)


def thing(place: Place, name: str) -> Path:
    uri = {
        "bronze": place.places.bronze,
        "rejects": place.places.rejects,
        "changes": place.places.changes("per_10m", 1),
        "gold": place.places.gold("per_10m"),
        "ingest": place.places.ingest_checkpoint,
        "query": place.places.query_checkpoint("per_10m", 1),
        "contract": place.places.contract("per_10m", 1),
        "ops": str(Path(place.places.ledger).parent),
    }[name]
    return Path(uri)


TABLES = ("bronze", "rejects", "changes", "gold")
CHECKPOINTS = ("ingest", "query")

Damage = Callable[[History, str], None]


def removed(history: History, name: str) -> None:
    path = thing(history.place, name)
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def emptied(history: History, name: str) -> None:
    removed(history, name)
    thing(history.place, name).mkdir()


def from_run(run: int) -> Damage:
    def restored(history: History, name: str) -> None:
        path = thing(history.place, name)
        removed(history, name)
        kept = history.at(run) / path.relative_to(history.place.root)
        shutil.copytree(kept, path) if kept.is_dir() else shutil.copy(kept, path)

    return restored


def last_commit_gone(history: History, name: str) -> None:
    log = thing(history.place, name) / "_delta_log"
    last = max(log.glob("*.json"))
    # A checkpoint of that version would still hold it.
    for path in (last, *log.glob(f"{last.stem}.checkpoint*")):
        path.unlink()
        if "checkpoint" in path.name:
            (log / "_last_checkpoint").unlink()


def replaced(history: History, name: str) -> None:
    removed(history, name)
    theirs, ours = thing(history.other, name), thing(history.place, name)
    shutil.copytree(theirs, ours) if theirs.is_dir() else shutil.copy(theirs, ours)


def outgrown(history: History, name: str) -> None:
    """A new table, with the columns of the former one, that has more versions than that had."""
    path = thing(history.place, name)
    former = DeltaTable(path)
    schema, columns = former.schema(), former.metadata().partition_columns
    version = former.version()
    removed(history, name)
    table = DeltaTable.create(path, schema, partition_by=columns)
    for _ in range(version + 5):
        table.alter.set_table_properties({"note": "x"}, raise_if_not_exists=False)


def deleted(history: History, name: str) -> None:
    DeltaTable(thing(history.place, name)).delete("key = 'a'" if name != "rejects" else "true")


def updated(history: History, name: str) -> None:
    column = "raw" if name == "rejects" else "key"
    DeltaTable(thing(history.place, name)).update({column: "'z'"})


def overwritten(history: History, name: str) -> None:
    table = DeltaTable(thing(history.place, name))
    rows = pa.table(table.to_pyarrow_table())
    write_deltalake(table, rows.slice(0, 1), mode="overwrite")


def appended(history: History, name: str) -> None:
    table = DeltaTable(thing(history.place, name))
    rows = pa.table(table.to_pyarrow_table())
    write_deltalake(table, rows.slice(0, 1), mode="append")


def restored_by_delta(history: History, name: str) -> None:
    table = DeltaTable(thing(history.place, name))
    table.restore(max(table.version() - 3, 1))


def packed(history: History, name: str) -> None:
    table = DeltaTable(thing(history.place, name))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


LOST: Mapping[str, Damage] = {
    "removed": removed,
    "emptied": emptied,
    "one run back": from_run(LAST - 1),
    "two runs back": from_run(LAST - 2),
    "replaced by a copy of another": replaced,
}
OF_TABLES: Mapping[str, Damage] = {
    **LOST,
    "without its last commit": last_commit_gone,
    "outgrown by a new one": outgrown,
    "DELETE": deleted,
    "UPDATE": updated,
    "overwritten": overwritten,
    "appended to": appended,
    "RESTORE": restored_by_delta,
}
STOPPING = [
    *((name, damage) for name in ("bronze", "rejects", "changes") for damage in OF_TABLES),
    *((name, damage) for name in CHECKPOINTS for damage in LOST),
    *(
        ("gold", damage)
        for damage in (
            "replaced by a copy of another",
            "DELETE",
            "UPDATE",
            "overwritten",
            "appended to",
            "RESTORE",
        )
    ),
    ("ops", "one run back"),
]
# Of places that are asked alike, one has all damages in each run of the tests, and each has these.
EVERYWHERE = ("one run back", "before the run", "replaced by a copy of another", "DELETE")


def each(cases: Iterable[tuple[str, str]], first: Collection[str]) -> list[Any]:
    """Cases of a place and its damage, those with the long tests that others stand for."""
    return [
        pytest.param(*case, marks=() if shown else pytest.mark.long)
        for case in cases
        for shown in [case[0] in first or case[1] in EVERYWHERE]
    ]


STOPS = each(STOPPING, ("bronze", "ingest", "gold"))
HEALS = [
    ("gold", "removed"),
    ("changes", "packed"),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            ("gold", "one run back"),
            ("gold", "two runs back"),
            ("gold", "without its last commit"),
            ("gold", "outgrown by a new one"),
            ("contract", "removed"),
            ("ops", "removed"),
            ("bronze", "packed"),
            ("rejects", "packed"),
            ("gold", "packed"),
        )
    ),
]


def digests(place: Place) -> dict[str, str]:
    """All files of the pipeline's tables and checkpoints, but for what a takeover of the lease
    leaves in logs."""
    root = place.root / place.name
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and "lease" not in str(path)
        and "results" not in str(path)
        and path.name != "status.json"
        and not path.is_relative_to(root / "ops")
        and not is_of_a_fence(path)
    }


def is_of_a_fence(path: Path) -> bool:
    """Is it the entry of a commit that fences a table, or the log's summary that may come of it?"""
    if path.parent.name != "_delta_log":
        return False
    if path.suffix != ".json":
        return "checkpoint" in path.name
    actions = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    return {name for one in actions for name in one} == {"metaData", "commitInfo"} and any(
        one.get("commitInfo", {}).get("operation") == "SET TBLPROPERTIES" for one in actions
    )


def run_without_session(place: Place, run_id: str) -> RunResult:
    def no_session(*_: object) -> SparkSession:
        raise AssertionError("a session was started")

    return run_once(
        place.run(run_id), quiet(), datetime.now(SCHEDULED.tzinfo), False, session=no_session
    )


def check_stops(place: Place, where: Path) -> None:
    """Two tries stop, name the place, and change nothing; the status says so too."""
    before = digests(place)
    for number in (1, 2):
        error = run_without_session(place, f"try{number}").error
        assert error is not None
        assert error.type == "TableLost", error
        assert not error.retry_can_help
        assert str(where) in error.message
    assert digests(place) == before
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state == "stopped", status
    assert str(where) in status.next_step
    print_pipeline(status)


def gold_of(place: Place) -> list[tuple[Any, ...]]:
    """Gold's closed windows in append mode, all in the others."""
    return query(
        "SELECT window_start, key, events, amount FROM gold ORDER BY ALL", gold=place.gold()
    )


def expected(place: Place, mode: str) -> list[tuple[Any, ...]]:
    """The batch aggregate of all landed rows, in SQL of another engine."""
    close = DeltaTable(place.places.gold("per_10m")).transaction_version("close") or 0
    closed = f"window_start + INTERVAL 10 MINUTES <= to_timestamp({close} / 1000)"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(
            f"""
            SELECT * FROM (
                SELECT time_bucket(INTERVAL 10 MINUTES, "at") AS window_start, key,
                    count(*) AS events, sum(amount)::BIGINT AS amount
                FROM read_json('{place.root}/landing/*.json', format='newline_delimited',
                    ignore_errors=true,
                    columns={{'at': 'TIMESTAMPTZ', key: 'VARCHAR', amount: 'BIGINT'}})
                WHERE key IS NOT NULL GROUP BY ALL
            ) WHERE {closed if mode == "append" else "true"} ORDER BY ALL
            """
        ).fetchall()


def mode_of(place: Place) -> str:
    return str(place.pipeline.tables["per_10m"].output_mode)


@pytest.mark.parametrize(("name", "damage"), STOPS, ids=lambda value: value)
def test_a_run_stops_and_changes_nothing(history: History, name: str, damage: str) -> None:
    place = history.back()
    OF_TABLES[damage](history, name)
    check_stops(place, thing(place, name))


@pytest.mark.parametrize(("name", "damage"), HEALS, ids=lambda value: value)
def test_runs_go_on_and_gold_is_right(
    history: History, spark: SparkSession, name: str, damage: str
) -> None:
    place = history.back()
    {**OF_TABLES, "packed": packed}[damage](history, name)
    assert find_losses(place.pipeline, place.warehouse) == ()
    for number in (1, 2):
        result = run_warm(spark, place, f"next{number}")
        assert result.error is None, result.error
        assert gold_of(place) == expected(place, mode_of(place))
        place.land("newer.json", rows(LAST + 2))


def test_the_folder_of_a_table_is_removed(history: History) -> None:
    place = history.back()
    removed(history, "changes")
    removed(history, "gold")
    check_stops(place, thing(place, "changes"))


def test_an_undisturbed_history_has_no_loss(history: History) -> None:
    for run in range(1, LAST + 1):
        place = history.back(run)
        assert find_losses(place.pipeline, place.warehouse) == ()


@pytest.mark.parametrize("name", ["bronze", "rejects", "changes"])
def test_no_commit_that_is_no_runs_hides_that_a_table_is_behind(
    history: History, name: str
) -> None:
    """A fence or a packed table has a version more, without the rows of that version."""
    place = history.back()
    last_commit_gone(history, name)
    lost = str(thing(place, name))
    assert list(fence_pipeline(place.pipeline, place.warehouse, 7)) == [lost]
    plans = maintain_pipeline(place.pipeline, place.settings, "maintenance", SCHEDULED)
    assert [plan.uri for plan in plans if plan.refused] == [lost]
    check_stops(place, Path(lost))


@pytest.fixture(scope="module")
def held(history: History, spark: SparkSession) -> RunResult:
    """A run that ended before its publish; the copy `held` is of then."""
    place = history.back()
    result = run_warm(spark, place, "held", hold=True)
    assert result.error is None, result.error
    shutil.copytree(place.root, history.copies / "held")
    return result


BETWEEN = each(
    (
        (name, damage)
        for name in ("bronze", "rejects", "changes", "ingest", "query")
        for damage in ("removed", "before the run", "replaced by a copy of another")
    ),
    ("bronze", "ingest"),
)


@pytest.mark.parametrize(("name", "damage"), BETWEEN, ids=lambda value: value)
def test_what_is_lost_between_a_run_and_its_publish_stops_both(
    history: History, held: RunResult, name: str, damage: str
) -> None:
    shutil.rmtree(history.place.root)
    shutil.copytree(history.copies / "held", history.place.root)
    place = history.place
    {**LOST, "before the run": from_run(LAST)}[damage](history, name)
    before = digests(place)
    uri = f"{place.root}/held.json"
    write_result(uri, held, {})
    published = publish_and_record(place.pipeline, held, uri, place.settings)
    assert published.error is not None
    assert published.error.type == "TableLost"
    assert str(thing(place, name)) in published.error.message
    assert digests(place) == before
    # The next run, which would take what the held one left.
    check_stops(place, thing(place, name))


def accept(place: Place, reason: str = "a wrong sensor") -> list[str]:
    accepted = accept_changes(
        place.pipeline, place.settings, "acceptance", reason, "somebody"
    ).by_hand
    return [loss.name for loss in accepted]


def test_accepted_changes_stop_no_run_and_the_next_ones_do(
    history: History, spark: SparkSession
) -> None:
    place = history.back()
    DeltaTable(place.places.bronze).delete("key = 'a' AND amount = 1")
    DeltaTable(place.places.rejects).delete("true")
    assert accept(place) == ["bronze", "rejects"]
    assert accept(place) == []
    before = gold_of(place)
    result = run_warm(spark, place, "accepted")
    assert result.error is None, result.error
    # Of the closed windows nothing changes but by a backfill.
    assert gold_of(place)[:6] == before[:6]
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state == "well", status
    DeltaTable(place.places.bronze).delete("key = 'a' AND amount = 2")
    check_stops(place, thing(place, "bronze"))


def test_what_was_accepted_stands_in_the_table_s_log(history: History) -> None:
    place = history.back()
    deleted(history, "changes")
    version = DeltaTable(place.places.changes("per_10m", 1)).version()
    accept(place, "doubled by a script")
    note = note_of(DeltaTable(place.places.changes("per_10m", 1)).history(1)[0])
    said = {"reason": "doubled by a script", "by": "somebody", "tables": ("per_10m",)}
    assert note == AcceptedNote(up_to=version, **said)


def test_rows_that_were_added_by_hand_to_open_windows_are_not_accepted(history: History) -> None:
    place = history.back()
    appended_newest(place)
    before = digests(place)
    with pytest.raises(AcceptanceRefused, match="windows that are open"):
        accept(place)
    assert digests(place) == before
    check_stops(place, thing(place, "bronze"))


def appended_newest(place: Place) -> None:
    table = DeltaTable(place.places.bronze)
    rows = pa.table(table.to_pyarrow_table()).sort_by([("at", "descending")])
    write_deltalake(table, rows.slice(0, 1), mode="append")


@pytest.mark.long
def test_rows_deleted_before_the_first_publish_are_told_and_a_rebuild_counts_them_no_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks())
    place.land("1.json", rows(1))
    assert run_warm(spark, place, "held", hold=True).error is None
    assert find_losses(place.pipeline, place.warehouse) == ()
    deleted_from = thing(place, "bronze")
    DeltaTable(deleted_from).delete("key = 'a'")
    check_stops(place, deleted_from)
    accept_changes(place.pipeline, place.settings, "accept", "a test sender", "us")
    assert migrate(spark, place, rebuild=True).error is None
    assert {row[1] for row in gold_of(place)} == {"b"}
    place.land("2.json", rows(2))
    assert run_warm(spark, place, "next").error is None
    assert audit(spark, place).outcome == "equal"
