"""Which batch of a table's query read which versions of bronze, and which rows were late to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidemark.checkpoint.log import Checkpoint
from tidemark.tables.repair.late_rows import BatchRead

# The close frontier that a batch ran under, by its number (None: unknown) and first version.
Frontier = Callable[[int | None, int], int]


def batches_read(
    checkpoint: Checkpoint, after_version: int, close_ms: Frontier
) -> tuple[BatchRead, ...]:
    """The committed batches of a table's query that read bronze after a version, oldest first.

    The late frontier of batch N is `batchWatermarkMs` of `offsets/(N-1)`, or the close frontier
    where that is further: `close_ms` tells it for a batch.
    """
    return tuple(reversed(list(_batches_back(checkpoint, after_version, close_ms))))


def _batches_back(
    checkpoint: Checkpoint, after_version: int, close_ms: Frontier
) -> Iterator[BatchRead]:
    kept = set(checkpoint.batches("offsets"))
    batch = checkpoint.last_batch("commits")
    end = checkpoint.delta_version(batch) if batch is not None else 0
    while batch is not None and end > after_version + 1:
        known = batch == 0 or batch - 1 in kept
        start = checkpoint.delta_version(batch - 1) if batch and known else 0
        first = max(start, after_version + 1)
        if first < end:
            watermark = _late_watermark_ms(checkpoint, batch, known)
            number = batch if known else None
            yield BatchRead(number, first, end - 1, max(watermark, close_ms(number, first)))
        batch, end = (batch - 1 if batch and known else None), start


def _late_watermark_ms(checkpoint: Checkpoint, batch: int, known: bool) -> int:
    """Where the offsets of the batch before are gone, the oldest watermark that is kept: no
    batch before it was further."""
    if batch == 0:
        return 0
    return checkpoint.offsets(batch - 1 if known else batch).watermark_ms
