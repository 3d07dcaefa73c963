"""The ledger's lines: their equations, what they say when they do not add up, and each once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.late_model import EPOCH, MILLISECOND
from tests.kit.running import query
from tidemark.errors import LedgerUnbalanced
from tidemark.ledger import ledger
from tidemark.ledger.ledger import (
    INGEST,
    STREAM,
    LedgerLine,
    check_balance,
    check_ledger,
    last_batch_written,
    replace_ledger,
    write_ledger,
)
from tidemark.ledger.lines import recomputed_lines, retraction_line, stream_lines
from tidemark.ledger.queries import recorded_queries
from tidemark.ledger.report import read_ledger
from tidemark.operators.repaired import LATE, SEAL, Recomputed
from tidemark.operators.touched import BatchCounts, BatchRead
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.ops_place import OpsPlace

SCHEDULED = datetime(2026, 7, 1, 12, tzinfo=UTC)
SCHEDULED_MS = (SCHEDULED - EPOCH) // MILLISECOND
MODES = ("update", "append", "complete")


def ingest(batch: int = 0, read: int | None = 10, accepted: int = 7, **values: Any) -> LedgerLine:
    return LedgerLine(
        kind=INGEST,
        source="ingest-query",
        position=batch,
        batch=batch,
        read=read,
        accepted=accepted,
        rejected=values.pop("rejected", 3),
        reasons=values.pop("reasons", {"malformed": 2, "future": 1}),
        **values,
    )


def stream(batch: int = 0, **values: Any) -> LedgerLine:
    told = {"assigned": 20, "late_assigned": 5, "emitted": 40, "emitted_before": 25} | values
    source = {"kind": STREAM, "source": "query", "position": batch, "batch": batch}
    return LedgerLine(**{**source, "table": "per_10m", **told})


def recomputed(kind: str, published: int = 9, in_bronze: int = 9) -> LedgerLine:
    return LedgerLine(
        kind=kind,
        source=f"per_10m/1/{kind}",
        position=4,
        table="per_10m",
        windows=2,
        published=published,
        in_bronze=in_bronze,
    )


BALANCED = [
    ingest(),
    ingest(offsets=12, without_record=2, rejected_parts=0),
    ingest(offsets=10, without_record=1, rejected_parts=1),
    stream(),
    stream(emitted=0, emitted_before=0, assigned=5),
    stream(emitted=60, emitted_before=40, expects_late=False),
    recomputed("late"),
    recomputed("seal"),
    recomputed("backfill"),
]


@pytest.mark.parametrize("line", BALANCED)
def test_a_line_that_adds_up_has_no_difference(line: LedgerLine) -> None:
    assert line.difference == 0
    check_balance("clicks", [line], "Do.")


OFF_BY = [
    (ingest(accepted=6), 1),
    (ingest(read=9), -1),
    (ingest(rejected=1), 2),
    (ingest(offsets=13, without_record=2, rejected_parts=0), 1),
    (ingest(offsets=11, without_record=2, rejected_parts=0), -1),
    (stream(late_assigned=4), 1),
    (stream(assigned=18), -2),
    (stream(emitted=41), -1),
    (stream(emitted_before=28), 3),
    # Complete mode emits late assignments too: they are not taken off.
    (stream(expects_late=False), 5),
    (recomputed("late", published=8), 1),
    (recomputed("seal", published=11), -2),
    (recomputed("backfill", in_bronze=0), -9),
]


@pytest.mark.parametrize(("line", "difference"), OFF_BY)
def test_what_is_missing_is_above_zero_and_what_is_too_much_below(
    line: LedgerLine, difference: int
) -> None:
    assert line.difference == difference
    with pytest.raises(LedgerUnbalanced, match=f"difference {difference}\n"):
        check_balance("clicks", [line], "Do.")


def test_append_mode_and_what_was_not_counted_have_no_equation() -> None:
    assert stream(emitted=None, emitted_before=None).difference is None
    assert ingest(read=None).difference is None
    uncounted = LedgerLine(kind="late", source="per_10m/1/late", position=4, published=9)
    assert uncounted.difference is None
    check_balance("clicks", [stream(emitted=None), ingest(read=None), uncounted], "Do.")


def test_an_unbalanced_ledger_names_the_table_the_batch_and_every_number() -> None:
    lines = [ingest(), stream(batch=7, late_assigned=6)]
    with pytest.raises(LedgerUnbalanced) as raised:
        check_balance("clicks", lines, "Do.")
    assert str(raised.value).splitlines()[:2] == [
        "The ledger of clicks does not balance in 1 lines:",
        "  per_10m, stream, batch 7: assigned 20, late_assigned 6, emitted 40, "
        "emitted_before 25; difference -1",
    ]
    assert str(raised.value).endswith("\nDo.")
    assert not raised.value.retry_can_help


def test_an_unbalanced_line_is_told_as_that_of_an_act_or_of_recomputed_windows() -> None:
    lines = [retraction_line("20260701T120000Z", None, 3, 5), recomputed("late", published=8)]
    with pytest.raises(LedgerUnbalanced) as raised:
        check_balance("clicks", lines, "Do.")
    assert str(raised.value).splitlines()[1:3] == [
        "  retract, rows of an act: published 3, in_bronze 5; difference 2",
        "  per_10m, late, recomputed windows: windows 2, published 8, in_bronze 9; difference 1",
    ]


@pytest.mark.parametrize(("wrong", "told"), [(5, None), (6, "… and 1 more"), (40, "… and 35 more")])
def test_at_most_five_lines_are_shown(wrong: int, told: str | None) -> None:
    lines = [stream(batch, emitted=0) for batch in range(wrong)]
    with pytest.raises(LedgerUnbalanced) as raised:
        check_balance("clicks", [*BALANCED, *lines], "Do.")
    text = str(raised.value)
    assert f"in {wrong} lines" in text
    assert text.count("difference 40") == 5
    assert (told in text) if told else ("more" not in text)


def counts(number: int | None, **values: int) -> BatchCounts:
    zeros = dict.fromkeys(BatchCounts.__dataclass_fields__, 0) | values
    return BatchCounts(**{**zeros, "batch": BatchRead(number, 1, 2, 0)})  # type: ignore[arg-type]


def table(mode: str) -> Windows:
    window = Window(length=600_000 * MILLISECOND, slide=300_000 * MILLISECOND)
    accept = mode == "complete"
    values = {"window": window, "output_mode": mode, "accept_unbounded_state": accept}
    return Windows("at", WindowTable.model_validate(values))


@given(
    assigned=st.integers(0, 100),
    late=st.integers(0, 100),
    before=st.integers(0, 100),
    lost=st.integers(-3, 3),
)
def test_a_batch_balances_just_where_nothing_is_lost_whatever_the_mode(
    assigned: int, late: int, before: int, lost: int
) -> None:
    late = min(late, assigned)
    read = [counts(3, assigned=assigned, late_assigned=late)]
    for mode, kept in (("update", assigned - late), ("complete", assigned)):
        emitted = {3: (before + kept - lost, before)}
        (line,) = stream_lines("t", table(mode), "query", read, emitted)
        assert line.difference == lost, mode
    (line,) = stream_lines("t", table("append"), "query", read, {})
    assert line.difference is None


def test_in_update_mode_a_batch_that_emitted_nothing_has_lost_what_was_not_late() -> None:
    read = [counts(0, assigned=4, late_assigned=4), counts(1, assigned=4, late_assigned=3)]
    found = [line.difference for line in stream_lines("t", table("update"), "query", read, {})]
    assert found == [0, 1]


def test_in_complete_mode_a_batch_whose_sum_is_not_known_has_no_equation() -> None:
    """The commit of the batch before may be out of the log by then."""
    (line,) = stream_lines("t", table("complete"), "query", [counts(9, assigned=4)], {})
    assert line.difference is None


def test_batches_that_the_checkpoint_no_longer_keeps_have_no_line() -> None:
    read = [counts(None, assigned=5), counts(2, assigned=5)]
    lines = list(stream_lines("t", table("append"), "query", read, {}))
    assert [line.batch for line in lines] == [2]


def write(folder: Path, *lines: LedgerLine, run: str = "run", pipeline: str = "clicks") -> None:
    write_ledger(OpsPlace(str(folder)), pipeline, run, SCHEDULED_MS, lines, SCHEDULED)


def written(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    ledger = DeltaTable(str(folder)).to_pyarrow_table()
    return query(f"SELECT {columns} FROM ledger ORDER BY ALL", ledger=ledger)


def test_each_kind_of_line_is_written_with_what_belongs_to_it(tmp_path: Path) -> None:
    write(tmp_path, ingest(), stream(late_rows=1, partly_late_rows=2), recomputed("late", 8))
    columns = 'kind, "table", batch, read, assigned, published, difference, balanced'
    assert written(tmp_path, columns) == [
        ("ingest", None, 0, 10, None, None, 0, True),
        ("late", "per_10m", None, None, None, 8, 1, False),
        ("stream", "per_10m", 0, None, 20, None, 0, True),
    ]
    assert written(tmp_path, "DISTINCT pipeline, run, scheduled_at AT TIME ZONE 'UTC'") == [
        ("clicks", "run", SCHEDULED.replace(tzinfo=None))
    ]
    (reasons,) = written(tmp_path, "reasons")[0]
    assert json.loads(reasons) == {"malformed": 2, "future": 1}


def test_a_line_is_written_once_whoever_writes_it_again(tmp_path: Path) -> None:
    write(tmp_path, ingest(0), stream(0), recomputed("late"))
    version = DeltaTable(str(tmp_path)).version()
    write(tmp_path, ingest(0), stream(0), recomputed("late"), run="again")
    assert DeltaTable(str(tmp_path)).version() == version
    write(tmp_path, ingest(0), ingest(1), stream(0), stream(1), stream(2), run="next")
    assert written(tmp_path, "kind, batch, run") == [
        ("ingest", 0, "run"),
        ("ingest", 1, "next"),
        ("late", None, "run"),
        ("stream", 0, "run"),
        ("stream", 1, "next"),
        ("stream", 2, "next"),
    ]


def test_pipelines_do_not_stand_in_each_others_way(tmp_path: Path) -> None:
    write(tmp_path, ingest(5))
    write(tmp_path, ingest(0), pipeline="other")
    assert written(tmp_path, "pipeline, batch") == [("clicks", 5), ("other", 0)]
    ledger = DeltaTable(str(tmp_path))
    assert last_batch_written(ledger, "clicks", "ingest-query") == 5
    assert last_batch_written(ledger, "other", "ingest-query") == 0


def test_before_the_first_line_the_last_batch_is_minus_one(tmp_path: Path) -> None:
    assert last_batch_written(None, "clicks", "ingest-query") == -1
    write(tmp_path, ingest())
    assert last_batch_written(DeltaTable(str(tmp_path)), "clicks", "another") == -1


def test_each_seal_has_its_line_though_it_finds_every_window_as_it_was(tmp_path: Path) -> None:
    """It appends nothing then, and `changes` stays at its version."""
    for sealed_to in (1_000, 1_000, 2_000):
        recomputed = [Recomputed(SEAL, 2, 5, 5, 0), Recomputed(LATE, 1, 1, 1, 0)]
        write(tmp_path, *recomputed_lines("t", "query", {LATE: 4, SEAL: sealed_to}, recomputed))
    assert written(tmp_path, "kind") == [("late",), ("seal",), ("seal",)]


def test_a_ledger_with_a_line_that_does_not_balance_is_refused_until_it_is_mended(
    tmp_path: Path,
) -> None:
    check_ledger(OpsPlace(str(tmp_path / "none")), "clicks")
    write(tmp_path, ingest(0), stream(0), stream(1, emitted=None))
    check_ledger(OpsPlace(str(tmp_path)), "clicks")
    write(tmp_path, stream(2, late_assigned=6), run="wrong")
    write(tmp_path, ingest(1), run="later")
    with pytest.raises(LedgerUnbalanced, match=r"per_10m, stream, batch 2: .*; difference -1"):
        check_ledger(OpsPlace(str(tmp_path)), "clicks")
    check_ledger(OpsPlace(str(tmp_path)), "words")


def test_a_ledger_built_anew_keeps_what_a_waiting_computation_has_noted(tmp_path: Path) -> None:
    """Its line is not written a second time by the run that publishes it."""
    late = list(recomputed_lines("t", "query", {LATE: 9}, [Recomputed(LATE, 1, 1, 1, 1)]))
    write(tmp_path, *late)
    rebuilt = [replace(late[0], position=4, in_bronze=None, waits=True)]
    replace_ledger(OpsPlace(str(tmp_path)), "clicks", rebuilt, SCHEDULED)
    write(tmp_path, *late)
    assert written(tmp_path, "kind, in_bronze") == [("late", None)]


def test_what_comes_again_after_a_ledger_was_built_anew_has_its_lines_again(tmp_path: Path) -> None:
    """The tables are older than the ledger was: some of its batches, and the late rows' windows,
    are not there, and one table has no batch any more."""
    late = list(recomputed_lines("t", "query", {LATE: 9}, [Recomputed(LATE, 1, 1, 1, 1)]))
    again = [*late, ingest(1), ingest(2), stream(0)]
    write(tmp_path, ingest(0), *again)
    rebuilt = [replace(late[0], position=4, published=5, in_bronze=None), ingest(0)]
    replace_ledger(OpsPlace(str(tmp_path)), "clicks", rebuilt, SCHEDULED)
    write(tmp_path, *(replace(line, position=5) if line.batch is None else line for line in again))
    assert written(tmp_path, "kind, batch, published") == [
        ("ingest", 0, None),
        ("ingest", 1, None),
        ("ingest", 2, None),
        ("late", None, 1),
        ("late", None, 5),
        ("stream", 0, None),
    ]


def test_a_computation_of_a_table_that_began_anew_has_its_line(tmp_path: Path) -> None:
    for life, position in (("first life", 5_000), ("second life", 3)):
        done = [Recomputed(LATE, 1, 1, 1, 1)]
        write(tmp_path, *recomputed_lines("t", life, {LATE: position}, done))
    assert len(written(tmp_path, "kind")) == 2


def test_the_queries_that_a_ledger_knows_come_in_the_order_of_their_last_runs(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "ledger")
    logical = iter((1, 9, 3, 2, 8, 4))
    for query_id, hour in (("c", 3), ("e", 5), ("a", 1), ("f", 6), ("d", 4), ("b", 2)):
        scheduled = SCHEDULED_MS + next(logical) * 3_600_000
        lines, now = [stream(source=query_id), ingest()], SCHEDULED + timedelta(hours=hour)
        write_ledger(OpsPlace(uri), "clicks", "run", scheduled, lines, now)
    other = [stream(source="other")]
    write_ledger(OpsPlace(uri), "views", "run", SCHEDULED_MS, other, SCHEDULED)
    assert recorded_queries(OpsPlace(uri), "clicks") == {
        None: ("ingest-query",),
        "per_10m": ("a", "b", "c", "d", "e", "f"),
    }
    replace_ledger(OpsPlace(uri), "clicks", [stream(source="rebuilt")], SCHEDULED)
    later, now = [stream(source="a later one")], SCHEDULED + timedelta(hours=1)
    write_ledger(OpsPlace(uri), "clicks", "run", 0, later, now)
    assert recorded_queries(OpsPlace(uri), "clicks") == {"per_10m": ("rebuilt", "a later one")}
    assert recorded_queries(OpsPlace(str(tmp_path / "none")), "clicks") == {}


def test_rows_that_rules_count_are_told_beside_lines_of_a_ledger_that_had_no_place_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, now = OpsPlace(f"{tmp_path}/ledger"), ledger.SCHEMA
    before = pa.schema([column for column in now if column.name != "counted"])
    monkeypatch.setattr(ledger, "SCHEMA", before)
    write_ledger(place, "clicks", "run-1", SCHEDULED_MS, [ingest()], SCHEDULED)
    assert (report := read_ledger(place, "clicks", 1)) is not None
    assert report.totals[0][-1] == "10 read = 7 accepted + 3 rejected"
    monkeypatch.setattr(ledger, "SCHEMA", now)
    lines = [ingest(1, counted={"no key": 2}), ingest(2, counted={"large": 1, "no key": 1})]
    write_ledger(place, "clicks", "run-2", SCHEDULED_MS, lines, SCHEDULED)
    assert (report := read_ledger(place, "clicks", 3)) is not None
    counted = '; counted {"large":1,"no key":3}'
    assert report.totals[0][-1] == f"30 read = 21 accepted + 9 rejected{counted}"
    assert [line[4].partition("; ")[2] for line in report.lines] == [
        'counted {"large": 1, "no key": 1}',
        'counted {"no key": 2}',
        "",
    ]


def test_a_total_that_a_line_does_not_tell_is_no_sum_of_the_others(tmp_path: Path) -> None:
    lines = [
        ingest(0, read=None, accepted=1000, rejected=None),
        ingest(1),
        LedgerLine(STREAM, "s", 0, table="per_10m", batch=0),
        stream(1),
    ]
    place = OpsPlace(f"{tmp_path}/ledger")
    replace_ledger(place, "clicks", lines, SCHEDULED)
    assert (report := read_ledger(place, "clicks", 1)) is not None
    assert [row[-1] for row in report.totals] == [
        "? read = 1,007 accepted + ? rejected",
        "? assigned, ? late",
    ]
