"""What new rows touch of what is closed: counted by batch, and what is to be computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# A frontier that all rows end before: with it, what a batch touches is all that its rows are in.
NEVER_MS = 253_402_300_799_000


@dataclass(frozen=True)
class BatchRead:
    """What one batch of a table's query read: the versions first..last of bronze, and of its other
    inputs, by their names; a last before its first where it read none.

    `late_ms` is its late frontier in milliseconds, 0 for none. `number` is None for batches
    that the checkpoint no longer keeps; their rows count as one batch, and as late up to the
    oldest watermark that it keeps, which no such batch was ahead of. `watermark_ms` is the
    watermark by which the engine dropped rows.
    """

    number: int | None
    first: int
    last: int
    late_ms: int
    watermark_ms: int = 0
    others: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def of(self, name: str) -> tuple[int, int]:
        """The versions of another input; (0, -1) where it read none."""
        return self.others.get(name, (0, -1))


@dataclass(frozen=True)
class BatchCounts:
    """The rows of a batch that count for the table, and their assignments to rows of it (windows,
    say); `not_counted` are its other rows of bronze, `without_match` those of all its rows
    for which a lookup has none.

    A row is wholly late when all its assignments are late, partly late when only some are.
    `late_groups` are the distinct windows with key that late assignments belong to, `frozen`
    the late assignments to windows that are not repaired any more (`keep`). `closed_groups`
    counts those windows, and those that were open to the batch and are closed now. `excluded`
    are the assignments to windows that the stream leaves out, late ones not among them where the
    stream emits no late ones.
    """

    batch: BatchRead
    rows: int
    assigned: int
    wholly_late: int
    partly_late: int
    late_assigned: int
    late_groups: int
    frozen: int
    closed_groups: int
    excluded: int = 0
    not_counted: int = 0
    without_match: int = 0


@dataclass(frozen=True)
class Touched:
    """The counts of each batch, and what is to be computed again: rows in the operator's own
    columns, distinct; only the operator reads them."""

    batches: tuple[BatchCounts, ...]
    closed: pa.Table
