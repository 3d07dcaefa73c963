"""What is excluded from a table's stream, as repairs and the ledger meet it.

| state | which rows of gold | said by | until |
|---|---|---|---|
| failing | those of which a measure fails | FAILURE in their row of `changes` | one without |
| excluded | those on which the whole query fails | a row of cause `failed` | its generation ends |
| detached | open episodes that a late row touched | a row of cause `apart` | they are closed |

A failing row is the stream's own. The other two change only by being computed again from bronze:
`gold/failing.py`, `gold/to_compute.py`. Counted and found without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tidemark.gold.failing import excluded_windows, other_rows, same_rows
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.operator import Equation, Operator
from tidemark.operators.touched import NEVER_MS, BatchCounts, BatchRead
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.place import TablePlace


@dataclass(frozen=True)
class Excluded:
    """The windows that are excluded from a table's stream, and bronze at a version."""

    rows: BronzeRows
    place: TablePlace
    windows: pa.Table

    @classmethod
    def of(cls, rows: BronzeRows, place: TablePlace, changes: DeltaTable, generation: int) -> Self:
        """What is excluded by now, as `changes` says; `place` is bronze's."""
        return cls(rows, place, excluded_windows(changes, rows.operator, generation))

    @property
    def operator(self) -> Operator:
        return self.rows.operator

    @property
    def located(self) -> pa.Table:
        """The windows, without the batches."""
        return self.windows.select(list(self.operator.located))

    def counted(self, batches: Sequence[BatchCounts]) -> tuple[BatchCounts, ...]:
        """The batches' counts with what each one's rows would have added to these windows."""
        return tuple(replace(one, excluded=self._assigned(one.batch)) for one in batches)

    def _assigned(self, batch: BatchRead) -> int:
        if batch.number is None or not self.windows.num_rows:
            return 0
        known = self.windows.filter(pc.field("batch") <= batch.number)
        if not known.num_rows:
            return 0
        # Where all is emitted, late rows are too.
        late_ms = 0 if self.operator.traits.equation is Equation.ALL else batch.late_ms
        return self.rows.count_in_batch(
            self.place, batch, known.select(self.located.column_names), late_ms
        )

    def due(
        self,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_before_ms: int,
        closed_ms: int,
    ) -> pa.Table:
        """Which of them are to be computed again: those that the batches touch, no frozen ones.

        Where gold shows closed rows only: of those that are closed by now, `closed_ms`, and also
        those that were open before.
        """
        windows = self.located
        if not windows.num_rows:
            return windows
        touched = windows.slice(0, 0)
        if batches:
            found = self.rows.touched(self.place, batches, frozen_before_ms, NEVER_MS)
            touched = same_rows(windows, found.closed, self.operator)
        if self.operator.table.output_mode != "append":
            return touched
        closing = self._ending(windows, closed_before_ms, closed_ms)
        closed = self._ending(touched, 0, closed_ms)
        return pa.concat_tables([closed, other_rows(closing, closed, self.operator)])

    def ending_in(self, after_ms: int, up_to_ms: int) -> pa.Table:
        """Those of them with after < end <= up to."""
        return self._ending(self.located, after_ms, up_to_ms)

    def _ending(self, windows: pa.Table, after_ms: int, up_to_ms: int) -> pa.Table:
        after, up_to = instant_of(after_ms), instant_of(up_to_ms)
        ends: list[Any] = self.rows.ends(windows).to_pylist()
        return windows.filter(pa.array([after < end <= up_to for end in ends], pa.bool_()))
