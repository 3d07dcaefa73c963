"""Which batch of a table's query read which versions of bronze, and which rows were late to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.operators.touched import BatchRead

# The close frontier that a batch ran under, by its number (None: unknown) and first version.
Frontier = Callable[[int | None, int], int]


@dataclass(frozen=True)
class ReadTo:
    """How far a batch came, as its offsets say: the version of bronze that the next one begins
    with, and the watermark that it ran by, in milliseconds; 0 for none."""

    bronze_end: int
    watermark_ms: int


_BEFORE_THE_FIRST = ReadTo(0, 0)


def read_to(checkpoint: Checkpoint, batch: int) -> ReadTo:
    """What `offsets/N` says; CheckpointUnreadable where it is missing or cannot be used."""
    return ReadTo(checkpoint.delta_version(batch), checkpoint.offsets(batch).watermark_ms)


def batches_read(
    checkpoint: Checkpoint,
    after_version: int,
    close_ms: Frontier,
    copied: Mapping[int, ReadTo] | None = None,
    closed_to_ms: Callable[[int], int] = lambda watermark_ms: watermark_ms,
) -> tuple[BatchRead, ...]:
    """The committed batches of a table's query that read bronze after a version, oldest first.

    The late frontier of batch N is what `batchWatermarkMs` of `offsets/(N-1)` closes
    (`Operator.closed_to_ms`), or the close frontier where that is further: `close_ms` tells it for
    a batch. `copied` tells of batches whose offsets
    are gone from the checkpoint.
    """
    found = _batches_back(checkpoint, after_version, close_ms, copied or {}, closed_to_ms)
    return tuple(reversed(list(found)))


def _batches_back(
    checkpoint: Checkpoint,
    after_version: int,
    close_ms: Frontier,
    copied: Mapping[int, ReadTo],
    closed_to_ms: Callable[[int], int],
) -> Iterator[BatchRead]:
    kept = set(checkpoint.batches("offsets"))
    batch = checkpoint.last_batch("commits")
    this = _BEFORE_THE_FIRST if batch is None else read_to(checkpoint, batch)
    while batch is not None and this.bronze_end > after_version + 1:
        if batch == 0:
            before: ReadTo | None = _BEFORE_THE_FIRST
        else:
            known = batch - 1 in kept
            before = read_to(checkpoint, batch - 1) if known else copied.get(batch - 1)
        first = max(before.bronze_end if before else 0, after_version + 1)
        if first < this.bronze_end:
            # Where the offsets of the batch before are gone, the oldest watermark that is kept: no
            # batch before it was further.
            watermark = (before or this).watermark_ms
            number = batch if before else None
            late_ms = max(closed_to_ms(watermark), close_ms(number, first))
            yield BatchRead(number, first, this.bronze_end - 1, late_ms)
        if batch == 0 or before is None:
            return
        batch, this = batch - 1, before
