"""Where an ingest stands whose batches we plan: in the offsets of its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidemark.checkpoint.log import Checkpoint

Planned = TypeVar("Planned")
# What an offset says, of its text and its file; CheckpointUnreadable where it is none of ours.
OffsetOf = Callable[[str, str], Planned]


@dataclass(frozen=True)
class Position(Generic[Planned]):
    """The last batch that was planned, and its offset; `is_pending`: it is not committed, and runs
    again. No batch yet: `batch` is -1, and `offset` None or where the first one begins."""

    batch: int = -1
    offset: Planned | None = None
    is_pending: bool = False


def position_of(ingest: Checkpoint, offset_of: OffsetOf[Planned]) -> Position[Planned]:
    """Read from the checkpoint; raises CheckpointUnreadable."""
    last = ingest.last_batch("offsets")
    if last is None:
        return Position()
    committed = ingest.last_batch("commits")
    offset = batch_offset(ingest, last, offset_of)
    return Position(last, offset, committed is None or committed < last)


def batch_offset(ingest: Checkpoint, batch: int, offset_of: OffsetOf[Planned]) -> Planned:
    """The offset of a batch, as it was planned."""
    (text,) = ingest.offsets(batch).sources
    return offset_of(text or "", f"{ingest.uri}/offsets/{batch}")
