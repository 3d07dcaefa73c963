"""What housekeeping would remove from a checkpoint, and why: a frozen plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidemark.checkpoint.doctor.findings import CheckpointVerdict


class FileKind(StrEnum):
    """The files of a checkpoint, as a plan counts them; a file's checksums count with it."""

    OFFSETS = "offsets"
    COMMITS = "commits"
    STATE = "state"
    SOURCES = "sources"
    LEFTOVERS = "leftovers"
    OTHERS = "others"


@dataclass(frozen=True)
class Share:
    """The files of a kind. `going` are the names of those that may go, counted from the
    checkpoint's folder, in the order in which they are removed; `reasons` say why they may, and
    why the others stay."""

    kind: FileKind
    files: int
    size: int
    going: tuple[str, ...] = ()
    going_size: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class HousekeepingPlan:
    """What may go from the checkpoint at `uri`. Removing any part of it, in its order, leaves a
    checkpoint on which a query starts as before, and that can be taken back to any kept batch.

    `refused` says why nothing is planned though there may be something to do. `kept` are the
    committed batches that the checkpoint can be taken back to.
    """

    uri: str
    verdict: CheckpointVerdict
    kept: range
    shares: tuple[Share, ...] = ()
    refused: str | None = None

    @property
    def files(self) -> int:
        return sum(share.files for share in self.shares)

    @property
    def size(self) -> int:
        return sum(share.size for share in self.shares)

    @property
    def going(self) -> Iterator[str]:
        """All that goes, in the order of its removal."""
        return (name for share in self.shares for name in share.going)

    @property
    def going_files(self) -> int:
        return sum(len(share.going) for share in self.shares)

    @property
    def going_size(self) -> int:
        return sum(share.going_size for share in self.shares)
