"""A table's rows as its inputs give them: found, located and counted without Spark.

DuckDB and Arrow answer here, by event times and keys alone; no measure is computed. What is
to be computed again (`Touched.closed`) has the columns `Operator.located`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidemark.operators.operator import Covered, Operator
from tidemark.operators.touched import NEVER_MS, BatchRead, Touched
from tidemark.pipeline.instants import instant_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.dataset import Dataset

    from tidemark.operators.looked_up_rows import Found
    from tidemark.operators.row_range import RowRange
    from tidemark.storage.delta.place import TablePlace


@dataclass(frozen=True)
class BronzeRows(ABC):
    """The rows of a table's operator, by bronze at a version and by its other inputs. Only reads.

    Times in milliseconds since 1970, UTC, where a name ends with `_ms`. A `condition` is DuckDB's
    SQL: only rows of bronze that fulfil it count.
    """

    operator: Operator
    bronze: DeltaTable

    @abstractmethod
    def first_needed_ms(self, close_ms: int) -> int:
        """No input row before this touches a row that is open at this frontier, and no such row
        starts before it; by bronze where a row's length has no bound."""

    @abstractmethod
    def seeded_from(self, close_ms: int) -> datetime:
        """The earliest event time that a new checkpoint is seeded with: the start of the first row
        that can be open at this frontier."""

    def frozen_before_ms(self, frozen_ms: int) -> int:
        """Rows that start before this are frozen, where input rows older than `frozen_ms` are not
        taken any more (`keep`)."""
        return frozen_ms

    @abstractmethod
    def newest_end_ms(self) -> int:
        """The latest end of a row that bronze's rows make; rounded up."""

    @abstractmethod
    def touched(
        self,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        """Count each batch's late rows; rows that start before `frozen_before_ms` stay as they are.

        `closed_ms` is the close frontier that gold holds now. Where that is further than the one
        that a batch ran under, its rows were not late, but what they touch is closed all the same.
        `place` is bronze's.
        """

    def evaluated(self, place: TablePlace, batch: BatchRead, before_ms: int) -> pa.Table:
        """The rows for which a batch of the query evaluates measures on input rows, and maybe more;
        as `Touched.closed`. `before_ms` is the watermark that the batch before ran by."""
        return self.touched(place, [batch], None, NEVER_MS).closed

    def rows_in_bronze(self, rows: pa.Table, condition: str = "true") -> pa.Table:
        """The rows that bronze gives where these are, which the query emitted or gold holds; as
        `Touched.closed`, and with `window_end` and `rows` where the traits say `checks_emitted`.
        The same ones where a row's place is fixed."""
        return rows.select(list(self.operator.located))

    def starts_in(self, known: str, row: str) -> str:
        """The condition in DuckDB's SQL that a known row of one relation starts within a row of
        another one, which bronze gives. The same row where a row's place is fixed."""
        return " AND ".join(
            f'{known}."{name}" IS NOT DISTINCT FROM {row}."{name}"'
            for name in self.operator.identity
        )

    def looked_up(self, rows: pa.Table) -> Found:
        """What the rows of bronze in these (`Touched.closed`) find in large lookups. Only of kinds
        that have lookups, where rows are of one length or do not overlap."""
        from tidemark.operators.looked_up_rows import found_within

        if not self.operator.lookups:
            return {}
        rows = rows.select(["window_start"]).group_by("window_start").aggregate([])
        starts: list[Any] = rows.column("window_start").to_pylist()
        ends: list[Any] = self.ends(rows).to_pylist()
        return found_within(self.operator, self.bronze, starts, ends)

    def look_ahead(
        self, place: TablePlace, batches: Sequence[BatchRead], before_ms: int, after_ms: int
    ) -> None:
        """Read in one scan of each large lookup what the rows of batches find, and all that are
        computed with them or because their windows end from one frontier to the other. Who asks
        for some of these then finds it read; who asks for others is answered as ever."""
        import pyarrow as pa

        from tidemark.operators.looked_up_rows import has_large

        if not batches or not has_large(self.operator):
            return
        table = self.operator.table
        every = table.model_copy(update={"group_by": [], "where": None})
        alone = replace(self.operator, table=every, lookups={}).rows_in(self.bronze)
        windows = [alone.touched(place, batches, None, NEVER_MS).closed]
        if not table.recomputes_open and after_ms > before_ms:
            first_end = instant_of(before_ms) + timedelta(microseconds=1)
            ending = alone.ending(first_end, instant_of(after_ms))
            windows += [] if ending is None else [ending]
        self.looked_up(pa.concat_tables(windows))

    def unlike(self, known: pa.Table, found: pa.Table) -> pa.Table | None:
        """Those of `found`, which bronze gives, of which something else is known: `known` has
        `located` and `rows`, and so has `found`. None where these tell it by themselves. Only where
        `checks_emitted`."""
        return None

    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table | None:
        """All rows with first_end <= end <= last_end, as `Touched.closed`; None where the Spark
        half finds them by itself (`StreamedOperator.ending_in`), and it is not recomputed."""
        return None

    @abstractmethod
    def holding(self, rows: pa.Table) -> pa.Table:
        """Which rows of the table these rows of bronze are in, as `Touched.closed`."""

    @abstractmethod
    def covered(self, closed: pa.Table) -> Covered | None:
        """What computing these again (`Touched.closed`) covers; None where rows never go."""

    def hanging_with(
        self, changed: pa.Table, gold: Dataset, condition: str
    ) -> tuple[datetime, datetime] | None:
        """When the first and the last row starts, in gold or by bronze, that shares input rows with
        these rows of gold, which are others by now. None where a row's place is fixed: it shares
        them with itself alone."""
        return None

    def covered_ending(self, first_end: datetime, last_end: datetime) -> Covered | None:
        """What computing all rows with first_end <= end <= last_end covers, where `ending` lists
        none."""
        return None

    @abstractmethod
    def ends(self, closed: pa.Table) -> pa.Array[Any]:
        """When each of these ends (`Touched.closed`), at the latest."""

    @abstractmethod
    def count_touched(self, closed: pa.Table, condition: str = "true") -> int:
        """The sum of `rows` that bronze gives for what is computed again."""

    @abstractmethod
    def count_in_batch(
        self, place: TablePlace, batch: BatchRead, rows: pa.Table, late_ms: int
    ) -> int:
        """How many assignments of a batch's rows go to these (`Touched.closed`), without those that
        are late by this frontier."""

    @abstractmethod
    def count_ending(self, first_end: datetime, last_end: datetime) -> int:
        """The sum of `rows` that bronze gives for all rows with first_end <= end <= last_end."""

    @abstractmethod
    def count_starting(self, rows: RowRange, condition: str) -> int:
        """The sum of `rows` that bronze gives for a range."""
