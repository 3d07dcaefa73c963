"""A window of which a measure fails: gold lacks it, `changes` says why, until it is mended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType
from pyspark.sql import types as T

from tests.kit.windows import Row, Windows, at, millis, window
from tidemark.gold.failing import NONE_FAILING, excluded_windows, failing_known, failing_now
from tidemark.gold.recomputed import differing_rows
from tidemark.gold.state import gold_state
from tidemark.operators.folds.folds import Folds
from tidemark.operators.sessions.sessions import Sessions
from tidemark.pipeline.model import FoldTable, SessionTable
from tidemark.storage.delta.history import FAILURE, changes_between
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

STATE = ("key", "total", "status", "revision")


def failing(minute: int = 0, key: str | None = "a", rows: int = 1) -> Row:
    return window(at(10, minute), rows, key=key, total=None, **{FAILURE: "total: sum(x) failed"})


def now(table: Windows, changes: str = "", frozen_before_ms: int | None = None) -> Any:
    """By the table's own `changes`, or those of another place."""
    gold, history = table.gold_table(), DeltaTable(changes or table.changes_uri)
    return failing_now(gold, history, table.operator, gold_state(gold), frozen_before_ms)


@pytest.mark.slow
def test_a_window_that_fails_leaves_gold_and_comes_back_when_it_is_mended(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1), window(at(10), key=None, total=2))
    table.publish_at(at(9))
    assert now(table) == NONE_FAILING
    table.change(failing())
    assert table.publish_at(at(9)).published_windows == 1
    assert table.gold(*STATE) == [(None, 2, "provisional", 0)]
    assert now(table).windows == 1
    assert now(table).examples == ("2026-07-01T10:00:00Z key=a: total: sum(x) failed",)
    table.change(window(at(10), 2, key="a", total=5))
    table.publish_at(at(11))
    assert table.gold(*STATE) == [("a", 5, "final", 0), (None, 2, "final", 0)]
    assert now(table) == NONE_FAILING


def test_a_window_whose_other_values_stay_as_they_are_leaves_gold_too(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=None))
    table.publish_at(at(9))
    table.change(failing())
    table.publish_at(at(9))
    assert table.gold("key") == []


def differing(table: Windows, *rows: Row) -> int:
    """How many of these, computed from bronze, go to `changes`."""
    schema = pa.schema([field for field in table.changes_schema() if field.name in rows[0]])
    return differing_rows(
        table.gold_table(),
        DeltaTable(table.changes_uri),
        gold_state(table.gold_table()),
        table.operator,
        pa.Table.from_pylist(list(rows), schema),
        None,
        millis(at(11)),
    ).num_rows


def test_what_is_computed_again_and_fails_is_appended_once(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1))
    table.publish_at(at(11))
    assert differing(table, failing()) == 1
    table.change(failing(), cause="late")
    assert differing(table, failing()) == 0
    # The same values, and no failure any more.
    assert differing(table, window(at(10), key="a", total=None, **{FAILURE: None})) == 1


class OfSessions(Windows):
    """Of a kind whose emitted rows are held against bronze: what fails is known there too."""

    @property
    def operator(self) -> Any:
        content = {"window": {"session": "10 minutes"}, "group_by": ["key"]}
        return Sessions("at", SessionTable.model_validate({**content, "measures": {"total": "x"}}))


def test_one_that_failed_and_is_mended_goes_once_when_it_is_late_again(tmp_path: Path) -> None:
    table = OfSessions(tmp_path)
    table.change(failing(rows=2), cause="late", batch=None)
    table.publish_at(at(11))
    assert differing(table, failing(rows=2)) == 0
    mended = {"key": "a", FAILURE: None}
    table.change(window(at(10), 3, total=5, **mended), cause="late", batch=None)
    table.publish_at(at(11))
    assert differing(table, window(at(10), 3, total=5, **mended)) == 0
    assert differing(table, window(at(10), 4, total=7, **mended)) == 1


def test_what_the_stream_leaves_out_is_told_by_window_and_first_batch(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(failing(), failing(10, None), cause="failed")
    table.change(failing(), cause="failed")
    table.change(failing(20), cause="late")
    found = excluded_windows(DeltaTable(table.changes_uri), table.operator, 1)
    assert found.to_pylist() == [
        {"window_start": at(10), "key": "a", "batch": 0},
        {"window_start": at(10, 10), "key": None, "batch": 0},
    ]
    assert excluded_windows(DeltaTable(table.changes_uri), table.operator, 2).num_rows == 0


def test_a_row_by_which_the_stream_leaves_a_window_out_says_nothing_of_gold(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1))
    table.publish_at(at(11))
    table.change(failing(), cause="failed")
    table.publish_at(at(11))
    assert table.gold(*STATE) == [("a", 1, "final", 0)]
    assert now(table) == NONE_FAILING


def test_a_failing_window_that_went_or_is_frozen_fails_no_more(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(failing(), failing(10), cause="late")
    table.publish_at(at(11))
    assert now(table).windows == 2
    assert now(table, frozen_before_ms=millis(at(10, 10))).windows == 1
    table.change(window(at(10), 0, key="a", total=None), cause="backfill")
    assert now(table).examples == ("2026-07-01T10:10:00Z key=a: total: sum(x) failed",)


GONE = window(at(10), 0, key="a", total=None)


@pytest.mark.parametrize("kind", [Windows, OfSessions])
def test_a_failing_window_that_went_and_fails_again_is_told(
    tmp_path: Path, kind: type[Windows]
) -> None:
    """Its rows were deleted by hand, and some landed again."""
    table = kind(tmp_path)
    table.change(failing(rows=2), batch=0)
    table.publish_at(at(11))
    table.change(GONE, cause="backfill", batch=0)
    table.publish_at(at(11))
    assert (now(table), known_of(table)) == (NONE_FAILING, [])
    table.change(failing(rows=1), cause="late", batch=1)
    table.publish_at(at(11))
    assert now(table).windows == 1
    assert known_of(table) == [(1, "total: sum(x) failed")]
    # And it may go once more.
    table.change(GONE, cause="late", batch=2)
    assert (now(table), known_of(table)) == (NONE_FAILING, [])


@pytest.mark.parametrize(("cause", "batch"), [("stream", 0), ("migration", -1), ("late", None)])
def test_what_went_by_a_version_that_noted_no_batch_fails_by_what_a_later_one_says(
    tmp_path: Path, cause: str, batch: int | None
) -> None:
    table = Windows(tmp_path)
    table.change(failing(rows=2), cause=cause, batch=batch)
    table.change(GONE, cause="backfill", batch=None)
    assert now(table) == NONE_FAILING
    table.change(failing(rows=1), cause="late", batch=1)
    assert now(table).windows == 1


def test_of_what_a_batch_left_failing_and_gone_it_is_gone(tmp_path: Path) -> None:
    """Two backfills, with no run between them: nobody knows which was the last."""
    table = Windows(tmp_path)
    table.change(failing(rows=2), cause="backfill", batch=3)
    table.change(GONE, cause="backfill", batch=3)
    assert now(table) == NONE_FAILING


@dataclass
class Episodes(Windows):
    """`changes` and gold of a fold."""

    keys: Mapping[str, T.DataType] = field(
        default_factory=lambda: {"key": T.StringType(), "number": T.LongType()}
    )

    @property
    def operator(self) -> Any:
        table = FoldTable.model_validate(
            {
                "fold": {"python": "a.py:A", "timeout": "1 hour", "emits": {"total": "long"}},
                "group_by": ["key"],
            }
        )
        return Folds("at", table)


def verdict(rows: int, said: str | None) -> Row:
    """What `changes` says of an episode's verdict; `rows` 0: it went."""
    return window(at(10), rows, key="a", number=0, total=None, **{FAILURE: said})


def said_of(table: Episodes) -> tuple[str, ...]:
    return tuple(one.partition(": ")[2] for one in now(table).examples)


def known_of(table: Windows) -> list[Any]:
    with duckdb_in_utc() as connection:
        failing_known(connection, DeltaTable(table.changes_uri), table.operator, 1, millis(at(11)))
        return connection.execute(f'SELECT "rows", {FAILURE} FROM failing_known').fetchall()


@pytest.mark.slow
def test_an_episode_that_fails_again_after_it_was_mended_is_told(tmp_path: Path) -> None:
    """look@0 and close@100 fail; open@50 mends it; of close@20 it fails again."""
    table = Episodes(tmp_path)
    table.change(verdict(2, "no open at 100"), batch=0)
    table.publish_at(at(11))
    assert said_of(table) == ("no open at 100",)
    table.change(verdict(0, None), cause="late", batch=1)
    table.publish_at(at(11))
    assert (now(table), known_of(table)) == (NONE_FAILING, [])
    table.change(verdict(2, "no open at 20"), cause="late", batch=2)
    table.publish_at(at(11))
    assert said_of(table) == ("no open at 20",)
    assert known_of(table) == [(2, "no open at 20")]


def test_a_verdict_over_fewer_rows_than_the_one_before_is_the_last_word(tmp_path: Path) -> None:
    """Else it would be appended anew by each run, and the older one told."""
    table = Episodes(tmp_path)
    table.change(verdict(4, "at the fourth"), batch=0)
    table.publish_at(at(11))
    table.change(verdict(2, "at the second"), cause="late", batch=1)
    table.publish_at(at(11))
    assert said_of(table) == ("at the second",)
    assert known_of(table) == [(2, "at the second")]


def test_what_a_repair_of_a_batch_s_run_says_comes_after_what_the_batch_emitted(
    tmp_path: Path,
) -> None:
    table = Episodes(tmp_path)
    table.change(verdict(3, "by the stream"), batch=4)
    table.change(verdict(0, None), cause="late", batch=4)
    assert (now(table), known_of(table)) == (NONE_FAILING, [])
    table.change(verdict(2, "sealed"), cause="seal", batch=4)
    table.publish_at(at(11))
    assert (said_of(table), known_of(table)) == (("sealed",), [(2, "sealed")])


def test_the_verdict_of_a_seal_counts_once_gold_is_closed_up_to_it(tmp_path: Path) -> None:
    table = Episodes(tmp_path)
    table.change(verdict(2, "sealed"), cause="seal", batch=0)
    table.publish_at(at(10))
    assert now(table) == NONE_FAILING
    table.publish_at(at(10, 10))
    assert said_of(table) == ("sealed",)
    # And so does that it went by a seal, which tells up to where that closes.
    gone = verdict(0, None) | {"window_end": at(12)}
    table.change(gone, cause="seal", batch=1)
    table.publish_at(at(11))
    assert said_of(table) == ("sealed",)
    table.publish_at(at(12))
    assert now(table) == NONE_FAILING


def test_changes_of_an_earlier_version_have_no_failure(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    former = str(tmp_path / "former")
    schema = pa.schema([field for field in table.changes_schema() if field.name != FAILURE])
    constant = {"cause": "stream", "generation": 1, "run": "run", "batch": 0}
    rows = pa.Table.from_pylist([window(at(10), key="a", total=1) | constant], schema)
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(former, rows, configuration=feed, commit_properties=CommitProperties())
    changes = DeltaTable(former)
    assert excluded_windows(changes, table.operator, 1).num_rows == 0
    assert now(table, former) == NONE_FAILING
    assert changes_between(changes, -1, 0).column(FAILURE).to_pylist() == [None]
    # Nor once the column was added, whatever it is taken for where a file lacks it.
    changes.alter.add_columns([Field(FAILURE, PrimitiveType("string"))])
    changes = DeltaTable(former)
    assert now(table, former) == NONE_FAILING
    write_deltalake(
        changes,
        pa.Table.from_pylist([failing(10) | constant], table.changes_schema()),
        mode="append",
    )
    assert now(table, former).windows == 1
    assert changes_between(DeltaTable(former), -1, 2).num_rows == 2
