"""What is told of a row rests on all batches of its rows, and on how each of them came."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.kit.running import Place
from tidemark.cli.explain import checked_by
from tidemark.operators.operator import BRONZE
from tidemark.recompute.audit_result import AuditResult, TableAudit
from tidemark.recompute.differences import Differences
from tidemark.storage.delta.notes import IngestNote, ReplayedNote, as_metadata
from tidemark.storage.delta.rows import Rows
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.story import explain, in_bronze
from tidemark.story.in_bronze import InBronze, Input
from tidemark.story.story import SAMPLE, RowsOfInput, RowValue, Story

AT = datetime(2026, 7, 1, 10, tzinfo=UTC)
ACT = "20260702T000000Z"


def value(run: str) -> RowValue:
    return RowValue(values={"n": 1}, rows=1, cause="late", run=run, batch=None, generation=0)


class Told(InBronze):
    """Of a row of which rows are late that came with these versions of bronze."""

    late: frozenset[int] = frozenset()

    def _late_to(self, name: str, version: int | None) -> int | None:
        return None if version is None else 2**62 if version in self.late else -(2**62)


def rows_told(own: Input, late: frozenset[int]) -> RowsOfInput:
    told = Told(None, "", None, None, own, None, ())  # type: ignore[arg-type]
    object.__setattr__(told, "late", late)
    with duckdb_in_utc() as connection:
        connection.register("rows_of_it", own.bronze.to_pyarrow_dataset())
        return told._told(connection, own, "FROM rows_of_it", "at")


def append(own: Input, note: Any, batches: list[int], places: list[int]) -> None:
    rows = {
        "at": pa.array([AT] * len(places), pa.timestamp("us", "UTC")),
        "_file": ["f"] * len(places),
        "_place": pa.array(places, pa.int64()),
        "_batch": pa.array(batches, pa.int64()),
        "_batch_time": pa.array([AT] * len(places), pa.timestamp("us", "UTC")),
    }
    noted = CommitProperties(custom_metadata=as_metadata(note)) if note else None
    write_deltalake(
        own.warehouse.bronze.uri, pa.table(rows), mode="append", commit_properties=noted
    )


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Input:
    place = Place(tmp_path)
    query = SimpleNamespace(query_id=lambda: "q")
    monkeypatch.setattr(in_bronze, "ingest_checkpoint", lambda _: query)
    monkeypatch.setattr(in_bronze, "ingested_by", lambda *_: {})
    return Input(BRONZE, place.warehouse, place.pipeline)


def test_a_value_s_late_rows_are_counted_in_older_batches_than_are_shown(own: Input) -> None:
    for batch in range(SAMPLE + 2):
        read = Rows(read=1, accepted=1, rejected={})
        append(
            own, IngestNote(query="q", batch=batch, rows=read, run=f"r{batch}"), [batch], [batch]
        )
    told = rows_told(own, frozenset(range(SAMPLE + 2)))
    assert explain._with_late(value("r0"), [told]).late == 1
    assert explain._with_late(value("none"), [told]).late == 0
    shown = explain._with_newest_batches(told)
    assert (len(shown.batches), shown.other_batches) == (SAMPLE, 2)


def test_a_reject_that_was_replayed_came_with_the_replay(own: Input) -> None:
    rows = Rows(read=2, accepted=1, rejected={"wrong type": 1})
    append(own, IngestNote(query="q", batch=0, rows=rows, run="r0"), [0], [0])
    append(own, ReplayedNote(id=ACT, rows=1), [0], [1])
    one = {"_replay": [ACT], "_batch": pa.array([0], pa.int64()), "_file": ["f"]}
    replayed = pa.table({**one, "_place": pa.array([1], pa.int64())})
    write_deltalake(own.warehouse.replayed.uri, replayed)
    # Version 1 came when the window was closed.
    told = rows_told(own, frozenset({1}))
    assert (told.late, told.replayed) == (1, 1)
    assert {(b.run, b.late) for b in told.batches} == {("r0", 0), (None, 1)}
    assert [(row.run, row.late) for row in told.sample] == [("r0", False), (None, True)]
    # It may be one of the run that repaired it: nobody knows.
    assert explain._with_late(value("r1"), [told]).late is None
    in_time = rows_told(own, frozenset())
    assert explain._with_late(value("r1"), [in_time]).late == 0


def test_an_open_row_that_an_audit_leaves_out_is_not_called_equal() -> None:
    hour = datetime(2026, 7, 1, 11, tzinfo=UTC)
    story = Story(
        pipeline="p", table="t", rows_are="sessions", window_start=AT, window_end=hour, key={},
        gold=None, gold_version=1, values=(), bronze=(), rejected=None, checks=(), accepted=(),
        notes=(),
    )  # fmt: skip

    def check(story: Story, closed_only: bool) -> bool | None:
        audit = TableAudit(
            gold=1, bronze=1, before_batch=None, close_ms=int(hour.timestamp() * 1000),
            closed_only=closed_only, windows_from=AT, windows_to=AT,
            found=Differences(gold_windows=1, bronze_windows=1, bronze_rows=3, equal=1),
        )  # fmt: skip
        result = AuditResult(
            pipeline="p", run_id="r", outcome="equal", started_at=AT, ended_at=AT,
            tables={"t": audit},
        )  # fmt: skip
        return checked_by(result, story).equal

    later = replace(story, window_end=datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert (check(story, True), check(later, True), check(later, False)) == (True, None, True)
    assert check(replace(story, window_end=None), True) is None
