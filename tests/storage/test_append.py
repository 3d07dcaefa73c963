"""Rows that are appended without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.storage.delta.append import append_rows

SCHEMA = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return DeltaTable.create(tmp_path / "table", SCHEMA)


def test_a_column_that_the_rows_do_not_have_is_null(table: DeltaTable) -> None:
    append_rows(table, pa.table({"a": pa.array([1], pa.int32())}), "the rows")
    found = DeltaTable(table.table_uri).to_pyarrow_table()
    assert found.to_pylist() == [{"a": 1, "b": None}]


def test_days_outside_of_the_calendar_keep_nobody_from_reading_the_table(tmp_path: Path) -> None:
    """Python has no such day, and delta-rs has it read the bounds of days."""
    table = DeltaTable.create(
        tmp_path / "table", pa.schema([("a", pa.int64()), ("d", pa.date32())])
    )
    days = pa.array([-719_163, 2_932_897], pa.int32()).view(pa.date32())
    append_rows(table, pa.table({"a": [1, 2], "d": days}), "the rows")
    found = DeltaTable(table.table_uri).to_pyarrow_dataset()
    assert found.to_table(["a"])["a"].to_pylist() == [1, 2]


def test_rows_without_a_column_that_is_never_null_are_no_rows_of_the_table(
    table: DeltaTable,
) -> None:
    with pytest.raises(DeltaError, match="Column 'a' is declared as non-nullable"):
        append_rows(table, pa.table({"b": ["x"]}), "the rows")
    assert DeltaTable(table.table_uri).version() == 0
