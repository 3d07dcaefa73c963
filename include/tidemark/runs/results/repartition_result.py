"""The result of a repartition of state, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field

from tidemark.storage.result_file import Facts, RunError


class QueryRepartition(Facts):
    """One query whose state after `batch` was brought from `before` to `after` partitions. `rows`
    of state were read before and after, and were the same."""

    batch: int
    before: int
    after: int
    rows: int
    seconds: float


class RepartitionResult(Facts):
    """One repartition of a pipeline's state, as far as it came; `queries` by table."""

    format: Literal[1] = 1
    pipeline: str
    run_id: str
    outcome: Literal["succeeded", "failed"]
    started_at: datetime
    ended_at: datetime
    queries: dict[str, QueryRepartition] = Field(default_factory=dict)
    seconds: dict[str, float] = Field(default_factory=dict)
    took_over: str | None = None
    error: RunError | None = None


def repartition_lines(result: RepartitionResult) -> Iterator[str]:
    """What was done, for people."""
    if not result.queries:
        yield "no state was brought to other partitions"
    for name, one in result.queries.items():
        yield (
            f"{name}: {one.before:,} to {one.after:,} partitions in {one.seconds:.1f} s; "
            f"{one.rows:,} rows of state are the same before and after"
        )
    for number in {one.after for one in result.queries.values()}:
        yield f"in the pipeline's file: advanced: {{shuffle_partitions: {number}}}"
