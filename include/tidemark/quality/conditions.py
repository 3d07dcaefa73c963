"""Conditions on rows, told by DuckDB.

A row is bad where its condition is false. Null is not false: as in a CHECK constraint of SQL, in
dbt's `expression_is_true` and in the expectations on column values, a row of which nobody can tell
is not counted as bad.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from tidemark.pipeline.checks import Severity
from tidemark.pipeline.expressions.in_duckdb import condition_in_duckdb
from tidemark.quality.planned_rows import ROWS, PlannedRows
from tidemark.quality.verdicts import CheckVerdict


def judge_conditions(rows: PlannedRows) -> Iterator[CheckVerdict]:
    """A verdict for each condition of a table."""
    looked_at = rows.count(f"SELECT count(*) FROM {ROWS}")
    for check in rows.table.checks:
        if isinstance(check.asked, str):
            yield _judge(rows, check.asked, check.severity, looked_at)


def _judge(rows: PlannedRows, text: str, severity: Severity, looked_at: int) -> CheckVerdict:
    bad = f"SELECT {rows.columns} FROM {ROWS} WHERE NOT ({condition_in_duckdb(text)})"
    try:
        return rows.judged(text, bad, looked_at, "rows", severity)
    except duckdb.Error as error:
        # A value that cannot be cast, or a number too large: Spark would raise too.
        return CheckVerdict(
            table=rows.name,
            check=text,
            severity=severity,
            passed=False,
            observed=f"nobody can tell: {error}",
            rows=looked_at,
        )
