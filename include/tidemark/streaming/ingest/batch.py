"""One batch of a source: what its judging goes by."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.judge.erased import KeyedDigests
from tidemark.judge.rules import Rules
from tidemark.pipeline.model import Pipeline, Source
from tidemark.sources.kinds import row_origin
from tidemark.sources.source import OriginColumn, ordering
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.sources.streams import StreamedSource


@dataclass(frozen=True)
class Batch:
    """Its number, and its own time, the same when it is repeated. `checkpoint` planned it.

    `max_line_bytes`: larger lines are rejected, none where an earlier version committed bronze.
    `never_read`: parts with a verdict of the try that committed bronze, which has no row of them.
    `jump_after_us`: its `Committed.jump_after_us`. `erased`: what erasures reject.
    """

    pipeline: Pipeline
    rules: Rules
    streamed: StreamedSource
    checkpoint: Checkpoint
    bronze: TablePlace
    rejects: TablePlace
    number: int
    time_ms: int
    max_line_bytes: int | None
    never_read: frozenset[str] = frozenset()
    jump_after_us: int | None = None
    erased: KeyedDigests | None = None

    @property
    def source(self) -> Source:
        return self.pipeline.source

    @property
    def origin(self) -> tuple[OriginColumn, ...]:
        return row_origin(self.pipeline)

    @property
    def order(self) -> tuple[OriginColumn, ...]:
        """Those by which rows of equal event time are told apart."""
        return ordering(self.origin)
