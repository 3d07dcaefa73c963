"""Start streaming queries and wait for them, without losing what a batch says went wrong.

An error that a batch's function raises comes back from the engine as text. The error itself is
kept here, so that the run still knows whether a retry can help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemark.commit_point import commit_point
from tidemark.errors import TidemarkError
from tidemark.streaming.failures import failure_of


@dataclass(frozen=True)
class Running:
    """A started query, and the error of the batch that stopped it."""

    query: StreamingQuery
    errors: list[Exception] = field(default_factory=list)


@commit_point(
    "query started",
    after_a_kill="before: nothing; after: the engine writes its checkpoint (files listed, "
    "offsets, state, commits) while the query runs, and repeats a batch that has offsets and no "
    "commit",
)
def start_query(writer: DataStreamWriter, write: Callable[[DataFrame, int], None]) -> Running:
    """Start a query that reads what is there now, batch by batch, and then ends by itself."""
    errors: list[Exception] = []

    def keep_error(rows: DataFrame, batch: int) -> None:
        try:
            write(rows, batch)
        except Exception as error:
            errors.append(error)
            raise

    return Running(writer.foreachBatch(keep_error).trigger(availableNow=True).start(), errors)


def await_all(running: Sequence[Running]) -> None:
    """Wait until every query has ended, well or badly; then raise the first failure."""
    failures = [failure for one in running if (failure := end_of(one))]
    if failures:
        raise failures[0]


def end_of(running: Running) -> TidemarkError | None:
    """Wait until a query has ended; why it failed, None where it did not."""
    try:
        running.query.awaitTermination()
    except PySparkException as error:
        return _told(running, error)
    return None


def clocks_observed(running: Running) -> dict[str, int]:
    """How many clock rows have passed the watermark of each side of a join, by what the query calls
    it, in all batches of this start that it still tells of."""
    found: dict[str, int] = {}
    for progress in running.query.recentProgress:
        for name, row in progress.observedMetrics.items():
            found[name] = found.get(name, 0) + int(row["clocks"] or 0)
    return found


def _told(running: Running, error: Exception) -> TidemarkError:
    """What the batch raised, which says more than what the engine made of it; else the engine's."""
    first = running.errors[0] if running.errors else error
    happened = (
        f"The query {running.query.name} failed. What was committed before stays; the next run "
        "repeats the batch that failed."
    )
    failure = failure_of(first, happened)
    if failure is not first:
        failure.__cause__ = error
    return failure
