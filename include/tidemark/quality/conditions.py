"""Conditions on rows, told by DuckDB.

A row is bad where its condition is false. Null is not false: as in a CHECK constraint of SQL, in
dbt's `expression_is_true` and in the expectations on column values, a row of which nobody can tell
is not counted as bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb
import pyarrow as pa

from tidemark.pipeline.checks import Check
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb
from tidemark.pipeline.expressions.kinds import (
    BINARY,
    BOOLEAN,
    DATE,
    NESTED,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Kind,
)
from tidemark.quality.planned_rows import ROWS, PlannedRows
from tidemark.quality.verdicts import CheckVerdict, check_name

_OF_ARROW = (
    (pa.types.is_int8, Kind("tinyint")),
    (pa.types.is_int16, Kind("smallint")),
    (pa.types.is_int32, Kind("int")),
    (pa.types.is_int64, Kind("bigint")),
    (pa.types.is_float32, Kind("float")),
    (pa.types.is_float64, Kind("double")),
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_string, TEXT),
    (pa.types.is_large_string, TEXT),
    (pa.types.is_string_view, TEXT),
    (pa.types.is_binary, BINARY),
    (pa.types.is_large_binary, BINARY),
    (pa.types.is_binary_view, BINARY),
    (pa.types.is_date32, DATE),
    (pa.types.is_timestamp, TIMESTAMP),
    (pa.types.is_nested, NESTED),
)


def judge_conditions(rows: PlannedRows) -> Iterator[CheckVerdict]:
    """A verdict for each condition of a table."""
    for check in rows.table.checks:
        if isinstance(check.asked, str):
            yield _judge(rows, check, check.asked)


def _judge(rows: PlannedRows, check: Check, text: str) -> CheckVerdict:
    kinds = kinds_of(rows.schema)
    try:
        condition = condition_in_duckdb(text, columns_of(kinds))
        meant = f"FROM {ROWS} WHERE ({where_of(check, kinds)})"
        looked_at = rows.count(f"SELECT count(*) {meant}")
        bad = f"SELECT {rows.columns} {meant} AND NOT ({condition})"
        return rows.judged(check_name(check), bad, looked_at, "rows", check.severity)
    except (duckdb.Error, ValueError) as error:
        # A value that cannot be cast, or a number too large: Spark would raise too. Or the column
        # has a type, which is known only now, that the engines compare differently.
        return CheckVerdict(
            table=rows.name,
            check=check_name(check),
            severity=check.severity,
            passed=False,
            observed=f"nobody can tell: {error}",
            rows=rows.count(f"SELECT count(*) FROM {ROWS}"),
        )


def where_of(check: Check, kinds: Mapping[str, Kind]) -> str:
    """Which rows a check looks at, in DuckDB's words; ValueError where it has none."""
    return condition_in_duckdb(check.where, columns_of(kinds)) if check.where else "true"


def kinds_of(schema: pa.Schema) -> dict[str, Kind]:
    """The types of gold's columns in Spark."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(of: pa.DataType) -> Kind:
    if pa.types.is_decimal(of):
        return Kind("decimal", of.precision, of.scale)
    return next((kind for is_kind, kind in _OF_ARROW if is_kind(of)), UNKNOWN)
