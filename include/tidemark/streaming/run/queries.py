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
from tidemark.errors import DataDamaged, RunFailed, TidemarkError
from tidemark.storage.delta.damage import damage_of
from tidemark.streaming.cluster.lacking import lacking
from tidemark.streaming.expression_errors import expression_failure

_MESSAGE_LENGTH, _CAUSE_LENGTH = 2_000, 1_000


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
        except (TidemarkError, PySparkException) as error:
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
    """The error of the batch, where it is one of ours or of an expression; else the engine's."""
    first = running.errors[0] if running.errors else error
    if isinstance(first, TidemarkError):
        return first
    happened = _head(running.query.name)
    failure: TidemarkError = (
        expression_failure(first, happened)
        or expression_failure(error, happened)
        or _failure(running.query.name, error)
    )
    failure.__cause__ = error
    return failure


def _head(query: str) -> str:
    return (
        f"The query {query} failed. What was committed before stays; the next run repeats the "
        "batch that failed."
    )


def _failure(query: str, error: Exception) -> TidemarkError:
    """The engine's error with the query it came from, shortened: the log holds the whole.

    The deepest cause stands in it, however long what is before; it names the file that is gone.
    """
    text, cause = str(error), _deepest_cause(error)
    if len(text) > _MESSAGE_LENGTH:
        text = f"{text[:_MESSAGE_LENGTH]} … (the driver's log holds the rest)"
    if cause and cause not in text:
        text = f"{text.rstrip()}\n{cause}"
    head = _head(query)
    if missing := lacking(error, head):
        return missing
    if damage := damage_of(RuntimeError(cause or text)):
        return DataDamaged(f"{head} {damage}")
    return RunFailed(f"{head} The engine says: {text}")


def _deepest_cause(error: Exception) -> str:
    """The last `Caused by:` of the engine's stack, with the line after it: some messages begin
    with the next one."""
    whole = f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
    _, marked, last = whole.rpartition("Caused by: ")
    if not marked:
        return ""
    message = last.split("\n\tat ")[0].split("\n    at ")[0]
    return f"Caused by: {' '.join(message.split())[:_CAUSE_LENGTH]}"
