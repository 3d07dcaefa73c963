"""Retention: whole dates of bronze go that nothing can need any more (`keep`).

A row older than `keep` is rejected, and a closed window that starts before that is frozen, so
nothing is computed from those dates again. Dates of windows that are still open stay, however
old, and those in which a duplicate of a new row can stand. The tables' streams read on: they
skip commits that only remove (`skipChangeCommits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import StorageUnavailable
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.storage.delta.create import existing_table

_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = epoch_ms(datetime.min.replace(tzinfo=UTC))


def frozen_before_ms(pipeline: Pipeline, ingest: Checkpoint) -> int | None:
    """Closed windows that start before this stay as they are: bronze may have lost rows of
    theirs. None without `keep`, or before the first batch.

    By the time of the newest batch, as the verdict `too old` is; milliseconds, UTC.
    """
    last = ingest.last_batch("offsets")
    if pipeline.keep is None or last is None:
        return None
    return ingest.offsets(last).batch_time_ms - pipeline.keep // _MILLISECOND


def first_kept_date(pipeline: Pipeline, frozen_ms: int, close_ms: Mapping[str, int]) -> date:
    """The oldest date whose rows are still needed: pure.

    `close_ms` holds each table's published close frontier. A window that ends after it is open,
    and starts no earlier than that less its length.
    """
    unique = pipeline.source.unique
    horizon = unique.within if unique else timedelta(0)
    opened = [
        close_ms[name] - table.window.length // _MILLISECOND
        for name, table in pipeline.tables.items()
    ]
    # A horizon may reach back further than there are dates.
    first = max(min(frozen_ms - horizon // _MILLISECOND, *opened), _FIRST_MS)
    return instant_of(first).date()


def drop_expired_dates(
    pipeline: Pipeline,
    places: Places,
    options: Mapping[str, str],
    check: Callable[[], None],
) -> tuple[date, ...]:
    """Drop bronze's expired dates after a publish, in one commit; the dates that went.

    Only the table's log is written: the files go when the table is vacuumed. Safe to repeat.
    `check` raises where this process may not write any more.
    """
    frozen = frozen_before_ms(pipeline, Checkpoint(places.ingest_checkpoint, options))
    if frozen is None:
        return ()
    golds = {name: existing_table(places.gold(name), options) for name in pipeline.tables}
    closed = {name: gold_state(gold).close_ms for name, gold in golds.items()}
    return _drop_before(places.bronze, first_kept_date(pipeline, frozen, closed), options, check)


def _drop_before(
    bronze: str, first_kept: date, options: Mapping[str, str], check: Callable[[], None]
) -> tuple[date, ...]:
    table = existing_table(bronze, options)
    held = [date.fromisoformat(part["_event_date"]) for part in table.partitions()]
    expired = tuple(sorted(day for day in held if day < first_kept))
    if expired:
        check()
        listed = ", ".join(f"'{day}'" for day in expired)
        properties = CommitProperties(max_commit_retries=0)
        try:
            table.delete(f"_event_date IN ({listed})", commit_properties=properties)
        except CommitFailedError as error:
            raise StorageUnavailable(
                f"{bronze} got another commit while its dates {listed} were dropped ({error}). "
                "What was to be published is published. Try again: the next run drops them."
            ) from error
    return expired
