"""The result of a compaction, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field

from tidemark.storage.result_file import Facts, RunError


class StateSize(Facts):
    """The state of a query: files and bytes of all that is held, and what the next start replays:
    deltas or changelogs (`changes`), at most `longest` in a partition."""

    files: int
    bytes: int
    changes: int
    change_bytes: int
    longest: int


class QueryCompaction(Facts):
    """One query of which `snapshots` were written, all of the version that `batch` left.

    `verdict` is that of the state before. `rows` of state were read before and after, and were the
    same. `after`: before housekeeping, which removes what is older than the kept batches.
    """

    batch: int
    verdict: str
    snapshots: int
    rows: int
    before: StateSize
    after: StateSize
    seconds: float


class CompactionResult(Facts):
    """One compaction of a pipeline, as far as it came. `queries`, by table, are those that were
    compacted; `files_removed` and `bytes_removed` are what housekeeping then removed of all
    checkpoints."""

    format: Literal[1] = 1
    pipeline: str
    run_id: str
    outcome: Literal["succeeded", "failed"]
    started_at: datetime
    ended_at: datetime
    queries: dict[str, QueryCompaction] = Field(default_factory=dict)
    files_removed: int = 0
    bytes_removed: int = 0
    seconds: dict[str, float] = Field(default_factory=dict)
    took_over: str | None = None
    error: RunError | None = None


def compaction_lines(result: CompactionResult) -> Iterator[str]:
    """What a compaction did, for people."""
    if not result.queries:
        yield "no state was compacted"
    for name, one in result.queries.items():
        yield (
            f"{name}: {one.snapshots:,} snapshots of batch {one.batch:,} written in "
            f"{one.seconds:.1f} s; {one.rows:,} rows of state are the same before and after"
        )
        yield (
            f"{name}: the next start replays {one.after.changes:,} deltas or changelogs instead "
            f"of {one.before.changes:,} ({one.before.change_bytes:,} bytes), at most "
            f"{one.after.longest:,} in a partition instead of {one.before.longest:,}"
        )
    if result.queries:
        yield f"housekeeping removed {result.files_removed:,} files, {result.bytes_removed:,} bytes"
