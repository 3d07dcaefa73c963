"""The rows of a next generation: status, revision and what stays, without Spark."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.windows import at, millis
from tidemark.gold.compared import Compared
from tidemark.gold.migrated import Former, NextGold, compared, migrated_windows, rows_of
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.dataset import dataset_of

LENGTH = timedelta(minutes=10)
TIME = pa.timestamp("us", "UTC")
OF_PUBLISH = [
    ("rows", pa.int64()),
    ("status", pa.string()),
    ("revision", pa.int64()),
    ("updated_by", pa.string()),
    ("window_date", pa.date32()),
]
IDENTITY = {"window_start": "window_start", "key": "key"}
OWN = {"window_end": "window_end", "rows": "rows"}
CLOSED = at(11)
Row = tuple[datetime, Any, Any]
DOUBLE, LONG = pa.float64(), pa.int64()


def schema(**measures: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            ("window_start", TIME),
            ("window_end", TIME),
            ("key", pa.string()),
            *measures.items(),
            *OF_PUBLISH,
        ]
    )


@pytest.fixture
def gold(tmp_path: Path) -> DeltaTable:
    """Four windows: final, corrected once, open, and one of long ago."""
    return gold_of(
        tmp_path,
        pa.int64(),
        (at(9), "a", 1, "final", 0),
        (at(10), "a", 2, "corrected", 1),
        (at(11), "a", 3, "provisional", 0),
        (at(8, day=1) - timedelta(days=90), "a", 4, "final", 0),
    )


def gold_of(folder: Path, kind: pa.DataType, *rows: tuple[Any, ...]) -> DeltaTable:
    content = [
        {
            "window_start": start,
            "window_end": start + LENGTH,
            "key": key,
            "total": total,
            "rows": 1,
            "status": status,
            "revision": revision,
            "updated_by": "run-1",
            "window_date": start.date(),
        }
        for start, key, total, status, revision in rows
    ]
    table = pa.Table.from_pylist(content, schema(total=kind))
    write_deltalake(folder / "gold", table, partition_by=["window_date"])
    return DeltaTable(folder / "gold")


def migrated(
    gold: DeltaTable,
    rows: list[Row],
    kind: pa.DataType | None = None,
    kept: frozenset[str] = frozenset({*OWN, "total"}),
    frozen: datetime | None = None,
    identity: dict[str, str] | None = IDENTITY,
    other_types: bool = False,
) -> tuple[dict[tuple[datetime, Any], tuple[Any, ...]], Compared]:
    """Of each row its measure, status, revision and who wrote it; and the counts."""
    to_schema = schema(total=kind or pa.int64())
    computed = pa.Table.from_pylist(
        [
            {
                "window_start": start,
                "window_end": start + LENGTH,
                "key": key,
                "total": None if isinstance(total, Exception) else total,
                "rows": 1,
                "_failure": str(total) if isinstance(total, Exception) else None,
            }
            for start, key, total in rows
        ],
        pa.schema([*list(to_schema)[:5], ("_failure", pa.string())]),
    )
    operator = Windows(
        "at",
        WindowTable(
            window=Window(length=LENGTH), group_by=("key",), measures={"total": "sum(amount)"}
        ),
    )
    values = OWN if other_types else {**OWN, "total": "total"}
    former = Former(dataset_of(gold), identity, values, kept, other_types)
    before = None if frozen is None else millis(frozen)
    to = NextGold(to_schema, operator, millis(CLOSED), before, "migrate")
    with migrated_windows(former, computed, to) as connection:
        counts = compared(connection, former, to)
        found = rows_of(connection, to).to_pylist()
    told = ("total", "status", "revision", "updated_by")
    return {(r["window_start"], r["key"]): tuple(r[n] for n in told) for r in found}, counts


OLD = at(8) - timedelta(days=90)
ALL: list[Row] = [(at(9), "a", 1), (at(10), "a", 2), (at(11), "a", 3), (OLD, "a", 4)]


def test_what_did_not_change_keeps_status_revision_and_who_wrote_it(gold: DeltaTable) -> None:
    found, counts = migrated(gold, ALL)
    assert found == {
        (at(9), "a"): (1, "final", 0, "run-1"),
        (at(10), "a"): (2, "corrected", 1, "run-1"),
        (at(11), "a"): (3, "provisional", 0, "run-1"),
        (OLD, "a"): (4, "final", 0, "run-1"),
    }
    assert counts == Compared(same=3, open=1)


def test_closed_values_that_differ_are_corrected_and_open_ones_are_not(gold: DeltaTable) -> None:
    found, counts = migrated(gold, [(start, key, total + 10) for start, key, total in ALL])
    assert found == {
        (at(9), "a"): (11, "corrected", 1, "migrate"),
        (at(10), "a"): (12, "corrected", 2, "migrate"),
        (at(11), "a"): (13, "provisional", 0, "migrate"),
        (OLD, "a"): (14, "corrected", 1, "migrate"),
    }
    assert counts.examples == (
        "2026-04-02T08:00:00Z a: total 4 → 14",
        "2026-07-01T09:00:00Z a: total 1 → 11",
        "2026-07-01T10:00:00Z a: total 2 → 12",
    )
    assert counts == Compared(corrected=3, open=1, examples=counts.examples)


def test_what_gold_did_not_have_is_final_and_what_bronze_lacks_goes(gold: DeltaTable) -> None:
    found, counts = migrated(gold, [*ALL[:2], (at(9), "new", 5), (at(9), None, 6)])
    assert found[at(9), "new"] == (5, "final", 0, "migrate")
    assert found[at(9), None] == (6, "final", 0, "migrate")
    assert counts == Compared(same=2, first_seen=2, gone=2)


def test_a_window_that_fails_has_no_row(gold: DeltaTable) -> None:
    found, counts = migrated(gold, [*ALL[1:], (at(9), "a", ZeroDivisionError("by zero"))])
    assert (at(9), "a") not in found
    assert counts == Compared(same=2, open=1, failing=1, gone=1)


def test_frozen_rows_stay_with_what_still_means_the_same(gold: DeltaTable) -> None:
    found, counts = migrated(gold, ALL[:3], frozen=at(0) - timedelta(days=30))
    assert found[OLD, "a"] == (4, "final", 0, "run-1")
    assert counts == Compared(same=2, open=1, frozen=1)
    changed, _ = migrated(gold, ALL[:3], kept=frozenset(OWN), frozen=at(0) - timedelta(days=30))
    assert changed[OLD, "a"] == (None, "final", 0, "run-1")


def test_rows_that_are_others_have_no_predecessor_frozen_ones_neither(gold: DeltaTable) -> None:
    found, counts = migrated(gold, ALL[:3], identity=None, frozen=at(0) - timedelta(days=30))
    assert {row[1:] for row in found.values()} == {
        ("final", 0, "migrate"),
        ("provisional", 0, "migrate"),
    }
    assert counts == Compared(first_seen=2, open=1, gone=4)


def test_values_of_another_type_are_other_values(gold: DeltaTable) -> None:
    rows: list[Row] = [(start, key, str(total)) for start, key, total in ALL]
    found, counts = migrated(gold, rows, pa.string(), other_types=True)
    assert found[at(9), "a"] == ("1", "corrected", 1, "migrate")
    assert counts == Compared(corrected=3, open=1, examples=counts.examples)


def test_numbers_of_another_type_are_compared(gold: DeltaTable) -> None:
    rows: list[Row] = [(start, key, float(total)) for start, key, total in ALL]
    _, counts = migrated(gold, rows, pa.float64())
    assert counts == Compared(same=3, open=1)


@pytest.mark.parametrize(
    ("was", "before", "kind", "now"),
    [
        (pa.int8(), -128, DOUBLE, -128.0),
        (pa.int32(), -(2**31), DOUBLE, -(2.0**31)),
        (LONG, -(2**63), DOUBLE, -(2.0**63)),
        (LONG, 10**18, pa.decimal128(38, 30), 0),
        (LONG, 7, pa.decimal128(38, 30), 7),
        (LONG, None, pa.decimal128(38, 30), 0),
        (LONG, None, pa.decimal128(38, 30), None),
        (LONG, 128, pa.int8(), 0),
        (DOUBLE, 1.6, LONG, 2),
        (pa.decimal128(10, 2), Decimal("1.50"), LONG, 2),
        (pa.decimal128(10, 2), Decimal("1.55"), pa.decimal128(10, 1), Decimal("1.6")),
        (pa.decimal128(10, 2), Decimal("1.5"), pa.decimal128(38, 38), 0),
        (pa.decimal128(38, 2), Decimal("9" * 36), pa.decimal128(38, 18), 0),
        (pa.decimal128(38, 18), Decimal("9" * 20), pa.decimal128(38, 2), Decimal("9" * 20)),
        (pa.decimal128(38, 30), Decimal("1.5"), LONG, 10**18),
    ],
)
def test_values_at_the_edges_of_their_types_are_compared(
    tmp_path: Path, was: pa.DataType, before: Any, kind: pa.DataType, now: Any
) -> None:
    """DuckDB ends the query where it finds no type for both sides, or no absolute value; where it
    rounds one of them, they come out the same."""
    gold = gold_of(tmp_path, was, (at(9), "a", before, "final", 0))
    found, counts = migrated(gold, [(at(9), "a", now)], kind=kind)
    is_same = before == now
    assert (counts.same, counts.corrected) == ((1, 0) if is_same else (0, 1))
    kept = ("final", 0, "run-1") if is_same else ("corrected", 1, "migrate")
    assert [row[1:] for row in found.values()] == [kept]
