"""What a table's publish would write, in DuckDB, for its checks to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tidemark.gold.plan import PublishPlan
from tidemark.gold.row_values import windows_to_write
from tidemark.operators.operator import Operator, listed
from tidemark.pipeline.checks import Severity
from tidemark.pipeline.model import Table
from tidemark.quality.verdicts import MOST_EXAMPLES, CheckVerdict, example
from tidemark.storage.delta.history import schema_of

ROWS = "rows_to_publish"


@dataclass(frozen=True)
class TablePublish:
    """What one table's publish starts from: gold as it was found, which is `kept`, the plan from
    there, and the rows of `changes` that it takes, with their `_commit_version`. `run_id` is who
    publishes."""

    name: str
    operator: Operator
    kept: DeltaTable
    plan: PublishPlan
    changes: pa.Table
    run_id: str

    @property
    def schema(self) -> pa.Schema:
        """Gold's columns."""
        return schema_of(self.kept)

    def windows(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """The tables `before` and `written` of `windows_to_write`."""
        return windows_to_write(self.kept, self.changes, self.operator, self.plan, self.run_id)


class WholePublish(Protocol):
    """Whatever would be published into a table, as its checks see it: as `TablePublish`."""

    @property
    def name(self) -> str: ...

    @property
    def operator(self) -> Operator: ...

    @property
    def plan(self) -> PublishPlan: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def kept(self) -> DeltaTable | None:
        """Gold, whose rows stay where none is written; None where what is written is all of it."""

    def windows(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]: ...


@dataclass(frozen=True)
class PlannedRows:
    """The rows that publish would write into one table, as the view `rows_to_publish`.

    The tables `before` and `written` of `windows_to_write` stand beside it. Windows that go from
    gold are not among the rows.
    """

    name: str
    operator: Operator
    plan: PublishPlan
    schema: pa.Schema
    connection: duckdb.DuckDBPyConnection
    kept: DeltaTable | None = None

    @property
    def table(self) -> Table:
        return self.operator.table

    @property
    def keys(self) -> tuple[str, ...]:
        return self.operator.identity

    @property
    def columns(self) -> str:
        return listed(self.schema.names)

    def count(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The number that a query gives."""
        ((number,),) = self.connection.execute(sql, values).fetchall()
        return int(number)

    def examples(self, sql: str) -> tuple[dict[str, Any], ...]:
        """The first rows that a query gives, by its columns from the left, and cut: a repeat of a
        validation shows the same ones."""
        found = self.connection.sql(f"SELECT * FROM ({sql}) ORDER BY ALL LIMIT {MOST_EXAMPLES}")
        return tuple(example(row) for row in found.to_arrow_table().to_pylist())

    def judged(
        self, name: str, bad: str, looked_at: int, what: str, severity: Severity = "fail"
    ) -> CheckVerdict:
        """The verdict on a check of `looked_at` rows, of which a query gives those that are bad;
        `what` they are for people."""
        unexpected = self.count(f"SELECT count(*) FROM ({bad})")
        return CheckVerdict(
            table=self.name,
            check=name,
            severity=severity,
            passed=unexpected == 0,
            observed=f"{unexpected:,} of {looked_at:,} {what} break it",
            rows=looked_at,
            unexpected=unexpected,
            examples=self.examples(bad) if unexpected else (),
        )


@contextmanager
def planned_rows(asked: WholePublish) -> Iterator[PlannedRows]:
    """The rows of one table, until the block ends."""
    with asked.windows() as connection:
        planned = asked.name, asked.operator, asked.plan, asked.schema
        rows = PlannedRows(*planned, connection, asked.kept)
        connection.execute(
            f"CREATE TEMP VIEW {ROWS} AS SELECT {rows.columns} FROM written WHERE NOT _gone"
        )
        yield rows
