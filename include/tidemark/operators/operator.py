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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from tidemark.operators.touched import NEVER_MS
from tidemark.pipeline.difference import ChangeVerdict, Difference

if TYPE_CHECKING:
    # Pins name inputs, and Dags are parsed with them: what reads tables is loaded by who does.
    import pyarrow as pa
    from deltalake import DeltaTable

    from tidemark.operators.row_range import RowRange
    from tidemark.operators.touched import BatchRead, Touched
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
    late? Then it is held against bronze before a publish (`Operator.rows_in_bronze`).
    `checks_closing`: can the query emit nothing of what it closes? Then all that closes is held
    against bronze (`Operator.ending`), and no open row ever stands in gold. `detaches_rows`, only
    where `checks_emitted`: is what the query emits of an open row wrong, or lacking, once a late
    row touched it? Then that is detached from what the query emits, until it is closed
    (`gold/detached.py`).

    `sets_aside`: can what fails its query be left out of it? `fails_queries`: can one row that
    fails keep others from being computed, so that it has to be computed alone? `fails_again`: can a
    row that failed and went fail again? Then what is computed from bronze is appended with the last
    batch of the query, which tells what was said last (`gold/failing.py`).
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

    `event_time` is bronze's column, `table` what the pipeline's file says.
    """

    event_time: str
    table: Table

    @classmethod
    def of(cls, pipeline: Pipeline, table: Table) -> Self:
        """The operator of a table of this pipeline."""
        return cls(pipeline.source.event_time.column, table)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that its query reads, as pins and gold's transactions name them: `bronze`, of
        another pipeline `bronze/PIPELINE`."""
        return (BRONZE,)

    def with_inputs(self, others: Mapping[str, InputTable]) -> Self:
        """The operator with the inputs that it reads beside its own bronze, by their names.
        Methods that are given `bronze` need them."""
        return self

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What its kind, and its output mode, settle beforehand."""

    @property
    def emits_only_closed(self) -> bool:
        """Does its query emit a row once, when it is closed? A batch that reads nothing frees
        state, and emits what it frees in append mode only."""
        return self.table.output_mode == "append" and not self.recomputes

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

    @property
    def recomputes(self) -> bool:
        """Is all that closes computed from its inputs (`ending`)? Its query emits nothing then, and
        only tells how far they were read, and the watermark."""
        return self.table.recomputes

    @abstractmethod
    def closed_to_ms(self, watermark_ms: int) -> int:
        """Up to where rows are closed once the query has run by a watermark."""

    def emitted_to_ms(self, closed_to_ms: int) -> int:
        """Up to which end the query has emitted rows that it emits once, where rows are closed up
        to this frontier."""
        return closed_to_ms

    def seal_delay(self, delay: timedelta) -> timedelta:
        """How far before an idle time a seal closes, where rows may be late by `delay`."""
        return delay

    @abstractmethod
    def why_due(self, before_ms: int, after_ms: int) -> str | None:
        """Why the next start has a batch to run though nothing is new, where the last one ran by
        the watermark `before_ms` and left `after_ms`; None: it has none."""

    @abstractmethod
    def most_emitted(self, rows: int) -> int | None:
        """How many rows a batch of so many input rows emits at most; None: nobody knows."""

    @abstractmethod
    def first_needed_ms(self, close_ms: int, bronze: DeltaTable) -> int:
        """No input row before this touches a row that is open at this frontier, and no such row
        starts before it; by bronze where a row's length has no bound."""

    @abstractmethod
    def seeded_from(self, close_ms: int, bronze: DeltaTable) -> datetime:
        """The earliest event time that a new checkpoint is seeded with: the start of the first row
        that can be open at this frontier."""

    def seeded_of(self, name: str, since: datetime) -> datetime:
        """The earliest event time that it is seeded with of one of its inputs, where rows that
        start at `since` can be open."""
        return since

    def complete_from(self, name: str, first: datetime) -> datetime:
        """Rows that start from then on need no input row of one of its inputs before `first`."""
        return first

    def frozen_before_ms(self, frozen_ms: int, bronze: DeltaTable) -> int:
        """Rows that start before this are frozen, where input rows older than `frozen_ms` are not
        taken any more (`keep`)."""
        return frozen_ms

    def kept_from_ms(self, first_ms: int) -> int:
        """Bronze keeps input rows from then on, so that of rows that start at `first_ms` or later
        none is cut by what it drops."""
        return first_ms

    @abstractmethod
    def newest_end_ms(self, bronze: DeltaTable) -> int:
        """The latest end of a row that bronze's rows make; rounded up."""

    @abstractmethod
    def touched(
        self,
        bronze: DeltaTable,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        """Count each batch's late rows; rows that start before `frozen_before_ms` stay as they are.

        `closed_ms` is the close frontier that gold holds now. Where that is further than the one
        that a batch ran under, its rows were not late, but what they touch is closed all the same.
        Only reads.
        """

    def evaluated(
        self, bronze: DeltaTable, place: TablePlace, batch: BatchRead, before_ms: int
    ) -> pa.Table:
        """The rows for which a batch of the query evaluates measures on input rows, and maybe more;
        as `Touched.closed`. `before_ms` is the watermark that the batch before ran by."""
        return self.touched(bronze, place, [batch], None, NEVER_MS).closed

    def rows_in_bronze(
        self, bronze: DeltaTable, rows: pa.Table, condition: str = "true"
    ) -> pa.Table:
        """The rows that bronze gives where these are, which the query emitted or gold holds; as
        `Touched.closed`, and with `window_end` and `rows` where the traits say
        `checks_emitted`. Only bronze's
        rows that fulfil the condition count. The same ones where a row's place is fixed."""
        return rows.select(list(self.located))

    def starts_in(self, known: str, row: str) -> str:
        """The condition in DuckDB's SQL that a known row of one relation starts within a row of
        another one, which bronze gives. The same row where a row's place is fixed."""
        return " AND ".join(
            f'{known}."{name}" IS NOT DISTINCT FROM {row}."{name}"' for name in self.identity
        )

    def unlike(self, bronze: DeltaTable, known: pa.Table, found: pa.Table) -> pa.Table | None:
        """Those of `found`, which bronze gives, of which something else is known: `known` has
        `located` and `rows`, and so has `found`. None where these tell it by themselves. Only where
        `checks_emitted`."""
        return None

    def ending(
        self, bronze: DeltaTable, first_end: datetime, last_end: datetime
    ) -> pa.Table | None:
        """All rows with first_end <= end <= last_end, as `Touched.closed`; None where the Spark
        half finds them by itself (`StreamedOperator.ending_in`), and nothing is `recomputes`."""
        return None

    @abstractmethod
    def covered(self, closed: pa.Table) -> Covered | None:
        """What computing these again (`Touched.closed`) covers; None where rows never go."""

    def covered_ending(self, first_end: datetime, last_end: datetime) -> Covered | None:
        """What computing all rows with first_end <= end <= last_end covers, where `ending` lists
        none."""
        return None

    @abstractmethod
    def count_touched(self, bronze: DeltaTable, closed: pa.Table, condition: str = "true") -> int:
        """The sum of `rows` that bronze gives for what is computed again, counted without Spark;
        only its rows that fulfil the condition count."""

    @abstractmethod
    def ends(self, closed: pa.Table) -> pa.Array[Any]:
        """When each of these ends (`Touched.closed`), at the latest."""

    @abstractmethod
    def count_in_batch(
        self,
        bronze: DeltaTable,
        place: TablePlace,
        batch: BatchRead,
        rows: pa.Table,
        late_ms: int,
    ) -> int:
        """How many assignments of a batch's rows go to these (`Touched.closed`), without those that
        are late by this frontier; counted without Spark."""

    @abstractmethod
    def count_ending(self, bronze: DeltaTable, first_end: datetime, last_end: datetime) -> int:
        """The sum of `rows` that bronze gives for all rows with first_end <= end <= last_end."""

    @abstractmethod
    def count_starting(self, bronze: DeltaTable, rows: RowRange, condition: str) -> int:
        """The sum of `rows` that bronze gives for a range; only its rows that fulfil the
        condition count."""

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


def changes_of(operator: Operator, query: str, asked: Table) -> Iterator[Difference]:
    """What differs between an operator and what a table of any kind asks for, apart from what all
    kinds have in common."""
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


def same_row(operator: Operator, one: str, other: str) -> str:
    """The condition that rows of two relations are the same row of the table."""
    return " AND ".join(
        f'{one}."{name}" IS NOT DISTINCT FROM {other}."{name}"' for name in operator.identity
    )
