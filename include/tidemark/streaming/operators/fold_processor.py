"""The engine's side of a fold: a key's state, and the timer that says when to go on.

Rows wait until the watermark has passed them, since only then is their order known; then they are
folded (`operators/folds/folding.py`). One timer a key: at the first row that waits, or where the
episode ends. A row at or before the watermark never comes: the engine drops it.

This module is imported by Python workers: it has no session at its top.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidemark.operators.folds.folding import Episode, Folding, FoldSpec, HeldRow
from tidemark.operators.folds.values import plain, reader

VARIABLE = "fold"
# `state` is the JSON of the user's; `held` are the rows that wait, with their columns' names.
_STATE = (
    "start bigint, last bigint, rows bigint, number bigint, state string, held binary, due bigint"
)


@dataclass(frozen=True)
class _Saved:
    """What is kept of a key between two batches: `due` is the timer, in milliseconds."""

    episode: Episode | None
    held: list[HeldRow]
    due: int | None


_NOTHING = _Saved(None, [], None)


class FoldProcessor(StatefulProcessor):
    """Folds one key's rows, whose columns have these types in Arrow. `columns` are those of its
    outputs: the engine takes these by name."""

    def __init__(
        self, spec: FoldSpec, kinds: Sequence[pa.DataType], columns: Sequence[str]
    ) -> None:
        self.spec = spec
        self.kinds = kinds
        self.columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState(VARIABLE, _STATE)
        self.folding = Folding(self.spec)
        self.output = Row(*self.columns)
        self.readers = [reader(kind) for kind in self.kinds]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        saved = self._saved()
        # The last column is that of the watermark, the one before it the same in microseconds.
        new = [HeldRow(row[-2], self._values(row[:-2])) for row in rows]
        held = _Saved(saved.episode, [*saved.held, *new], saved.due)
        yield from self._advanced(key, held, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        saved = self._saved()
        if saved.due == expiredTimerInfo.getExpiryTimeInMs():
            saved = _Saved(saved.episode, saved.held, None)
        yield from self._advanced(key, saved, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def _advanced(self, key: Any, saved: _Saved, watermark_ms: int) -> Iterator[Row]:
        up_to = watermark_ms * 1_000
        passed = [row for row in saved.held if row.time <= up_to]
        waiting = [row for row in saved.held if row.time > up_to]
        episode, outputs = self.folding.fold(saved.episode, passed, up_to)
        self._save(saved, episode, waiting)
        named = tuple(map(plain, key))
        for one in outputs:
            values = (one.number, *one.values, one.rows, one.failure)
            yield self.output(one.start, one.end, *named, *values)

    def _values(self, given: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(read(value) for read, value in zip(self.readers, given, strict=True))

    def _saved(self) -> _Saved:
        found = self.state.get() if self.state.exists() else None
        if found is None:
            return _NOTHING
        start, last, rows, number, state, held, due = found
        episode = None if start is None else Episode(start, last, rows, number, state)
        return _Saved(episode, self._unpacked(held), due)

    def _save(self, before: _Saved, episode: Episode | None, waiting: list[HeldRow]) -> None:
        due = self._due(episode, waiting)
        if before.due is not None and before.due != due:
            self.handle.deleteTimer(before.due)
        if due is not None and before.due != due:
            self.handle.registerTimer(due)
        if due is None:
            self.state.clear()
            return
        parts: tuple[Any, ...] = (None,) * 5
        if episode is not None:
            parts = (episode.start, episode.last, episode.rows, episode.number, episode.state)
        self.state.update((*parts, self._packed(waiting), due))

    def _due(self, episode: Episode | None, waiting: list[HeldRow]) -> int | None:
        """The first millisecond at which there is something to do."""
        times = [row.time for row in waiting]
        if episode is not None:
            times.append(episode.last + self.spec.timeout)
        return -(-min(times) // 1_000) if times else None

    def _packed(self, rows: list[HeldRow]) -> bytes | None:
        if not rows:
            return None
        return pickle.dumps((self.spec.columns, [(row.time, row.values) for row in rows]))

    def _unpacked(self, held: Any) -> list[HeldRow]:
        """By the names of columns: the source may have others since."""
        if held is None:
            return []
        columns, rows = pickle.loads(bytes(held))
        if columns == self.spec.columns:
            return [HeldRow(time, values) for time, values in rows]
        named = [(time, dict(zip(columns, values, strict=True))) for time, values in rows]
        return [
            HeldRow(time, tuple(values.get(name) for name in self.spec.columns))
            for time, values in named
        ]
