"""Folds as an operator: what a user's class puts out of each episode of a key's rows.

An episode is a session of its rows: the timeout is the gap. So all that tells where episodes lie in
bronze, and which of them a late row touches, is that of sessions (`operators/sessions`). A row of
gold is an output: its episode's start, the keys, and its number there. The number 0 stands for the
episode as a whole: in `Touched.closed`, and in `changes` as the verdict of a class that failed.

An output is determined by the rows up to its time (`window_end`): that of the row that made it, of
`on_timeout` the end of the episode. A row in time lies behind the watermark, so that outputs are
closed up to the watermark itself, and nothing is emitted that is not.

The engine drops a row that is late by itself though its episode is open, and folds on without it.
Of what it emits of such an episode later nothing is right, and what it does not emit nobody could
see. So an open episode that a late row touches is *detached* from then on (`gold/to_compute.py`):
until it has ended, each run computes it from bronze. All else that the engine emits is held against
bronze, by each output's episode and the number of rows up to its time; so what it is folded of is
the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.folds.folding import VERDICT, FoldSpec
from tidemark.operators.operator import Traits, emits_only_closed
from tidemark.operators.sessions.in_bronze import (
    first_start_of_those_ending,
    outputs_unlike,
    sessions_of,
    times_between,
)
from tidemark.operators.sessions.sessions import Gapped, GappedRows
from tidemark.operators.touched import BatchRead, Touched
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.fold_code import fingerprint, same_code
from tidemark.pipeline.fold_rules import NUMBER
from tidemark.pipeline.instants import epoch_ms, epoch_us, instant_of
from tidemark.pipeline.model import FoldTable, Pipeline, Table
from tidemark.storage.delta.place import TablePlace

_TICK = timedelta(microseconds=1)
_OTHER = "The state and the table hold what it came to as it was, and the engine does not notice"


@dataclass(frozen=True)
class Folds(Gapped):
    """The outputs of one table. `columns` are those that the pipeline's file gives a row."""

    table: FoldTable
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, pipeline: Pipeline, table: Table) -> Self:
        assert isinstance(table, FoldTable)
        source = pipeline.source
        return cls(source.event_time.column, table, (*source.columns, *source.derive))

    @property
    def identity(self) -> tuple[str, ...]:
        return ("window_start", *self.table.group_by, NUMBER)

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", *self.table.fold.emits, "rows")

    @property
    def traits(self) -> Traits:
        """Each output of an episode counts its rows up to there. Of an episode that failed, late
        rows can be what the class lacked, and others too many: its verdict goes and comes by the
        same number, and over any number of rows."""
        return Traits(
            None,
            emits_only_closed(self.table),
            checks_emitted=True,
            counts_rows=False,
            fails_queries=False,
            detaches_rows=not self.table.recomputes,
            fails_again=True,
        )

    def spec(self, columns: Sequence[str]) -> FoldSpec:
        """What a task needs, for bronze with these columns. A row has also those that bronze gets
        with the next run: by their names, as a table can have them in another order than its file.
        """
        fold = self.table.fold
        names = {*self.columns, *(name for name in columns if not name.startswith("_"))}
        others = sorted(names.difference(fold.order_by))
        return FoldSpec(
            python=fold.python,
            code=self.table.code,
            timeout=self.gap // _TICK,
            columns=(*fold.order_by, *others),
            emits=fold.emits,
        )

    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        return FoldRows(self, bronze)

    def first_open_start(self, close_ms: int) -> datetime:
        return instant_of(close_ms) + _TICK

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, FoldTable)
        old, new = self.table.fold, asked.fold
        pairs = [
            ("fold.python", old.python, new.python),
            ("fold.timeout", duration_text(old.timeout), duration_text(new.timeout)),
            ("fold.order_by", _list(old.order_by), _list(new.order_by)),
            ("fold.emits", _typed(old.emits), _typed(new.emits)),
        ]
        if old.python == new.python and not same_code(self.table.code, asked.code):
            pairs.append(("the code of fold.python", *_changed(self.table.code, asked.code)))
        for what, before, after in pairs:
            if before != after:
                yield Difference(query, what, before, after, ChangeVerdict.NEW_GENERATION, _OTHER)


@dataclass(frozen=True)
class FoldRows(GappedRows):
    """Episodes by bronze. `Touched.closed` has whole ones, with the number 0."""

    def first_needed_ms(self, close_ms: int) -> int:
        """Episodes that a row behind the frontier can still touch count as open."""
        first = first_start_of_those_ending(self._in(), close_ms)
        return close_ms if first is None else min(close_ms, epoch_ms(first))

    def touched(
        self,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        found = super().touched(place, batches, frozen_before_ms, closed_ms)
        return Touched(found.batches, self._located(found.closed))

    def unlike(self, known: pa.Table, found: pa.Table) -> pa.Table:
        return outputs_unlike(self._in(), known, found, NUMBER, VERDICT)

    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table:
        """The episodes that can have an output which is determined then."""
        rows = self._in()
        times = epoch_us(first_end - self.gap), epoch_us(last_end)
        return self._located(sessions_of(rows, times_between(rows, *times)))

    def _located(self, found: pa.Table) -> pa.Table:
        whole = pa.repeat(pa.scalar(VERDICT, pa.int64()), found.num_rows)
        if NUMBER not in found.column_names:
            found = found.append_column(NUMBER, whole)
        return found.select([*self.operator.located, "rows"])


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _typed(emits: dict[str, str]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in emits.items())


def _changed(old: dict[str, str], new: dict[str, str]) -> tuple[str, str]:
    """What each side has of the files that differ: their names, and a fingerprint of the source."""
    files = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]

    def labelled(side: dict[str, str]) -> str:
        return ", ".join(f"{path} {fingerprint(side[path])}" for path in files if path in side)

    return labelled(old) or "none", labelled(new) or "none"
