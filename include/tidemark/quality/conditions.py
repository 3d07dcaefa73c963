"""Conditions on rows, told by DuckDB.

A row is bad where its condition is false. Null is not false: as in a CHECK constraint of SQL, in
dbt's `expression_is_true` and in the expectations on column values, a row of which nobody can tell
is not counted as bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb

from tidemark.pipeline.checks import Check
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb
from tidemark.pipeline.expressions.kinds import Kind
from tidemark.quality.planned_rows import ROWS, PlannedRows
from tidemark.quality.verdicts import CheckVerdict, check_name
from tidemark.storage.arrow_kinds import kinds_of


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
    except duckdb.OperationalError:
        raise
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
