"""Which batch of a table's query read which versions of bronze, and which rows were late to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.checkpoint.log import Checkpoint
from tidemark.operators.touched import BatchRead

# The close frontier that a batch ran under, by its number (None: unknown) and first version.
Frontier = Callable[[int | None, int], int]


@dataclass(frozen=True)
class ReadTo:
    """How far a batch came, as its offsets say: the version of bronze that the next one begins
    with, and the watermark that it ran by, in milliseconds; 0 for none. `other_ends` are those
    versions of its other inputs, by their names."""

    bronze_end: int
    watermark_ms: int
    other_ends: Mapping[str, int] = field(default_factory=dict)


_BEFORE_THE_FIRST = ReadTo(0, 0)


@dataclass(frozen=True)
class OtherInput:
    """An input beside bronze: what pins call it, Delta's id of it, and the version that is
    published (-1: none)."""

    name: str
    id: str
    published: int


def read_to(checkpoint: Checkpoint, batch: int, others: Sequence[OtherInput] = ()) -> ReadTo:
    """What `offsets/N` says; CheckpointUnreadable where it is missing or cannot be used."""
    ends = {}
    if others:
        versions = checkpoint.delta_versions(batch)
        ends = {one.name: versions.get(one.id, 0) for one in others}
    return ReadTo(checkpoint.delta_version(batch), checkpoint.offsets(batch).watermark_ms, ends)


def batches_read(
    checkpoint: Checkpoint,
    after_version: int,
    close_ms: Frontier,
    copied: Mapping[int, ReadTo] | None = None,
    closed_to_ms: Callable[[int], int] = lambda watermark_ms: watermark_ms,
    others: Sequence[OtherInput] = (),
) -> tuple[BatchRead, ...]:
    """The committed batches of a table's query that read bronze after a version, or another of its
    inputs after what of it is published, oldest first.

    The late frontier of batch N is what `batchWatermarkMs` of `offsets/(N-1)` closes
    (`Operator.closed_to_ms`), or the close frontier where that is further: `close_ms` tells it for
    a batch. `copied` tells of batches whose offsets
    are gone from the checkpoint.
    """
    found = _batches_back(checkpoint, after_version, close_ms, copied or {}, closed_to_ms, others)
    return tuple(reversed(list(found)))


def _batches_back(
    checkpoint: Checkpoint,
    after_version: int,
    close_ms: Frontier,
    copied: Mapping[int, ReadTo],
    closed_to_ms: Callable[[int], int],
    others: Sequence[OtherInput],
) -> Iterator[BatchRead]:
    kept = set(checkpoint.batches("offsets"))
    batch = checkpoint.last_batch("commits")
    this = _BEFORE_THE_FIRST if batch is None else read_to(checkpoint, batch, others)
    while batch is not None and _reads_on(this, after_version, others):
        if batch == 0:
            before: ReadTo | None = _BEFORE_THE_FIRST
        else:
            known = batch - 1 in kept
            before = read_to(checkpoint, batch - 1, others) if known else copied.get(batch - 1)
        first = max(before.bronze_end if before else 0, after_version + 1)
        of_others = {one.name: _read(one, before, this) for one in others}
        read_others = any(start <= end for start, end in of_others.values())
        if first < this.bronze_end or read_others:
            # Where the offsets of the batch before are gone, the oldest watermark that is kept: no
            # batch before it was further.
            watermark = (before or this).watermark_ms
            number = batch if before else None
            late_ms = max(closed_to_ms(watermark), close_ms(number, first))
            yield BatchRead(number, first, this.bronze_end - 1, late_ms, watermark, of_others)
        if batch == 0 or before is None:
            return
        batch, this = batch - 1, before


def _reads_on(this: ReadTo, after_version: int, others: Sequence[OtherInput]) -> bool:
    ends = ((this.other_ends.get(one.name, 0), one.published) for one in others)
    return this.bronze_end > after_version + 1 or any(end > after + 1 for end, after in ends)


def _read(one: OtherInput, before: ReadTo | None, this: ReadTo) -> tuple[int, int]:
    """The versions of an input that a batch read; all that are not published where it is not known
    how far the batch before came."""
    start = before.other_ends.get(one.name, 0) if before else 0
    return max(start, one.published + 1), this.other_ends.get(one.name, 0) - 1
