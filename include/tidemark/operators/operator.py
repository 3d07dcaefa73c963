"""What a table's operator is to the rest of the house: all that is known of it without Spark.

A kind of operator is a folder here, its half in Spark a module of `streaming/operators/`, and its
table a model of the pipeline's file; `kinds.py` says which belong together. Every kind is held to
the same suite: tests/operators/contract.

Rows of every kind have `window_start`, `window_end` (UTC) and `rows`, the number of input rows in
them. What closes, closes for good: a row that ends at or before the close frontier C changes only
by being computed again from the inputs. Bronze only grows, and a closed row is a function of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from tidemark.operators.lookups import (
    NO_LOOKUPS,
    LookupCopy,
    Lookups,
    input_of,
    lookups_of,
)
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.expressions.sql import same_expression

if TYPE_CHECKING:
    # Pins name inputs, and Dags are parsed with them: what reads tables is loaded by who does.
    import pyarrow as pa
    from deltalake import DeltaTable

    from tidemark.operators.bronze_rows import BronzeRows
    from tidemark.operators.row_range import RowRange
    from tidemark.pipeline.model import Pipeline, Table
    from tidemark.storage.delta.place import TablePlace

# The input that every table has: its own pipeline's bronze.
BRONZE = "bronze"


class Equation(StrEnum):
    """What the ledger holds a batch to, by the sum of `rows` over what the batch emitted.

    `changed`: less what the same rows were before, it is the assignments that were not late.
    `all`: less that of the batch before, it is all assignments.
    """

    CHANGED = "changed"
    ALL = "all"


@dataclass(frozen=True)
class Covered:
    """Which known rows a computation computes again: those that it does not give are gone.

    `condition` is DuckDB's SQL over a row `k` of gold or `changes`; the relation `touched` holds
    `touched`. `dates` is a condition on `window_date` that all of these rows fulfil.
    """

    condition: str
    touched: pa.Table
    dates: str


@dataclass(frozen=True)
class Traits:
    """Answers that are settled by the kind and the output mode of an operator.

    `equation`: what the ledger holds each batch to; None: nothing. `emits_without_input`: does a
    batch that reads nothing emit rows? What others emit then is not appended. `counts_rows`: is an
    input row in the `rows` of one row for each of its assignments, so that their sum can be held
    against the inputs? `grows`: what of a row only grows as input rows come: of two of its values
    the later one has more. Not so where it `fails_again`.

    `checks_emitted`: can what the query emits differ from what bronze gives, though no row was
    late? Then it is held against bronze before a publish (`BronzeRows.rows_in_bronze`).
    `checks_closing`: can the query emit nothing of what it closes? Then all that closes is held
    against bronze (`BronzeRows.ending`), and no open row ever stands in gold. `detaches_rows`, only
    where `checks_emitted`: is what the query emits of an open row wrong, or lacking, once a late
    row touched it? Then that is detached from what the query emits, until it is closed
    (`gold/to_compute.py`).

    `sets_aside`: can what fails its query be left out of it? `fails_queries`: can one row that
    fails keep others from being computed, so that it has to be computed alone? `fails_again`: can a
    row that failed and went fail again, or over fewer rows, though bronze only grew? Then the last
    word on it is that after the newest batch of the query, and not that over the most rows
    (`gold/failing.py`).

    `closes_behind_ms`: how far behind the watermark rows are closed. `emits_ahead_ms`: how much
    later than that one may end which the query has emitted. `emits_per_row`: how many rows a batch
    in update mode emits at most for each that it reads; None: nobody knows.

    `delay_of_others`: how late rows of its other inputs may be. `reach`: how far from an input
    row's time those of others lie that belong to the same row.
    """

    equation: Equation | None
    emits_without_input: bool
    counts_rows: bool = True
    grows: tuple[str, ...] = ("rows",)
    checks_emitted: bool = False
    checks_closing: bool = False
    detaches_rows: bool = False
    sets_aside: bool = True
    fails_queries: bool = True
    fails_again: bool = False
    closes_behind_ms: int = 0
    emits_ahead_ms: int = 0
    emits_per_row: int | None = None
    delay_of_others: timedelta = timedelta(0)
    reach: timedelta = timedelta(0)

    def seal_delay(self, delay: timedelta) -> timedelta:
        """How far before an idle time a seal closes, where rows of bronze may be late by `delay`:
        all inputs are idle for so long then."""
        return max(delay, self.delay_of_others) + self.reach

    def closed_to_ms(self, watermark_ms: int) -> int:
        """Up to where rows are closed once the query has run by a watermark."""
        return max(watermark_ms - self.closes_behind_ms, 0)

    def emitted_to_ms(self, closed_to_ms: int) -> int:
        """Up to which end the query has emitted rows that it emits once, where rows are closed up
        to this frontier."""
        return closed_to_ms + self.emits_ahead_ms if closed_to_ms else 0


@dataclass(frozen=True)
class InputTable:
    """An input beside the table's own bronze, at a version, and where it lies. Only its rows that
    fulfil the condition count."""

    table: DeltaTable
    place: TablePlace
    condition: str = "true"


@dataclass(frozen=True)
class Operator(ABC):
    """A table of a pipeline, as one kind of operator computes it. Event times and frontiers are
    milliseconds since 1970, UTC, where a name ends with `_ms`; 0: none yet.

    `event_time` is bronze's column, `table` what the pipeline's file says, its keys as gold calls
    them. `lookups` are those that it names columns of.
    """

    event_time: str
    table: Table
    lookups: Lookups = field(default_factory=dict, kw_only=True)

    @classmethod
    def of(cls, pipeline: Pipeline, table: Table) -> Self:
        """The operator of a table of this pipeline."""
        lookups = lookups_of(pipeline.lookup, table) if pipeline.lookup else NO_LOOKUPS
        if lookups:
            table = table.model_copy(update={"group_by": table.keys})
        return cls(pipeline.source.event_time.column, table, lookups=lookups)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that its query reads, as pins and gold's transactions name them: `bronze`, of
        another pipeline `bronze/PIPELINE`, a lookup `lookup/NAME`."""
        return (BRONZE, *map(input_of, self.lookups))

    def with_inputs(self, others: Mapping[str, InputTable]) -> Self:
        """The operator with the inputs that it reads beside its own bronze, by their names.
        `rows_in` needs them."""
        return self

    def with_copies(self, copies: Mapping[str, LookupCopy]) -> Self:
        """The operator with the copies of its lookups, by their names; `rows_in` needs them too."""
        lookups = {name: replace(one, copy=copies[name]) for name, one in self.lookups.items()}
        return replace(self, lookups=lookups)

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What its kind, and its output mode, settle beforehand."""

    @property
    @abstractmethod
    def identity(self) -> tuple[str, ...]:
        """The columns that tell one row of gold from another; null is a value like any other."""

    @property
    def located(self) -> tuple[str, ...]:
        """The columns that say which input rows a row is made of: the identity, and what else it
        takes. `Touched.closed` has these."""
        return self.identity

    @property
    @abstractmethod
    def values(self) -> tuple[str, ...]:
        """All its other columns, `window_end` and `rows` among them: one row differs from another
        in these."""

    @abstractmethod
    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        """Its rows as bronze gives them, at the version that this one is."""

    @abstractmethod
    def why_due(self, before_ms: int, after_ms: int) -> str | None:
        """Why the next start has a batch to run though nothing is new, where the last one ran by
        the watermark `before_ms` and left `after_ms`; None: it has none."""

    def needed_before(self, name: str) -> timedelta:
        """How long before its own start a row needs the rows of one of its inputs."""
        return timedelta(0)

    def kept_from_ms(self, first_ms: int) -> int:
        """Bronze keeps input rows from then on, so that of rows that start at `first_ms` or later
        none is cut by what it drops."""
        return first_ms

    @abstractmethod
    def first_start_touching(self, event_time: datetime) -> datetime:
        """The earliest start of a row that an input row of this event time can be the first of, or
        can be in where a row's length is fixed."""

    @abstractmethod
    def starting_in(self, start: datetime, end: datetime) -> RowRange | None:
        """The rows that can start in [start, end); None where none can."""

    @abstractmethod
    def first_open_start(self, close_ms: int) -> datetime:
        """All rows that start then or later are open at this frontier; where a row's length is
        fixed, no other one is."""

    @abstractmethod
    def first_kept_start(self, frozen_before_ms: int) -> datetime:
        """The earliest start of a row that is not frozen."""

    @abstractmethod
    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        """What differs in that part of the definition which only this kind has; `asked` is of the
        same kind."""


def emits_only_closed(table: Table) -> bool:
    """Does the query of a table emit a row once, when it is closed? A batch that reads nothing
    frees state, and emits what it frees in append mode only."""
    return table.output_mode == "append" and not table.recomputes


def changes_of(operator: Operator, query: str, asked: Table) -> Iterator[Difference]:
    """What differs between an operator and what a table of any kind asks for, apart from what all
    kinds have in common."""
    before, after = operator.table.where, asked.where
    if before != after and not (before and after and same_expression(before, after)):
        yield Difference(
            query,
            "where",
            before or "none",
            after or "none",
            ChangeVerdict.NEW_GENERATION,
            "The state and the table hold the rows that counted so far",
        )
    if type(asked) is type(operator.table):
        yield from operator.definition_changes(query, asked)
        return
    yield Difference(
        query,
        "window",
        operator.table.rows_are,
        asked.rows_are,
        ChangeVerdict.NEW_GENERATION,
        "The state and the table hold rows of another kind",
    )


def listed(columns: Iterable[str], relation: str = "") -> str:
    """Columns as SQL lists them."""
    before = f"{relation}." if relation else ""
    return ", ".join(f'{before}"{name}"' for name in columns)


def covered_exactly(operator: Operator, rows: pa.Table) -> Covered | None:
    """What computing these again covers, where a row's place is fixed: these, of which a changed
    lookup may have left none."""
    if not operator.lookups:
        return None
    days = sorted({start.date() for start in rows.column("window_start").to_pylist() if start})
    listed_days = ", ".join(f"DATE '{day}'" for day in days)
    dates = f"window_date IN ({listed_days})" if days else "false"
    same = same_row(operator, "k", "t")
    return Covered(f"EXISTS (SELECT 1 FROM touched t WHERE {same})", rows, dates)


def same_row(operator: Operator, one: str, other: str) -> str:
    """The condition that rows of two relations are the same row of the table."""
    return " AND ".join(
        f'{one}."{name}" IS NOT DISTINCT FROM {other}."{name}"' for name in operator.identity
    )
