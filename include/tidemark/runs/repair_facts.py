"""What a table's repair starts from: the batches since its last publish, and the seal frontier."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tidemark.operators.batches_read import Frontier, batches_read
from tidemark.operators.other_inputs import other_places, others_published, position
from tidemark.operators.touched import BatchRead
from tidemark.runs.run import Outcome, TableRun
from tidemark.storage.delta.commits import close_frontiers, last_ingest

_MILLISECOND = timedelta(milliseconds=1)


def unpublished_batches(table: TableRun) -> tuple[BatchRead, ...]:
    """The batches of a table's query that read what gold does not stand for yet."""
    return batches_read(
        table.checkpoint,
        table.state.bronze,
        _frontier(table),
        closed_to_ms=table.operator.traits.closed_to_ms,
        others=others_published(table.operator, table.warehouse, table.state.inputs),
    )


def batch_computed_after(table: TableRun, inputs: Mapping[str, int]) -> int | None:
    """The query's last batch, which tells what of `changes` was said last; with lookups, which
    change between two batches, the position of all inputs at these versions. None: no batch yet."""
    if table.operator.lookups:
        return position(table.operator, table.warehouse, inputs)
    return table.checkpoint.last_batch("commits")


def checked_to_of(table: TableRun, bronze: int) -> int:
    """What all that was emitted is held against, as a number that grows with each input; 0 where
    it is held against nothing."""
    if not table.operator.traits.checks_emitted:
        return 0
    return bronze + sum(table.versions_read().values())


def seal_ms(table: TableRun, outcome: Outcome) -> int:
    """Up to where a run that has listed its source seals a table, in milliseconds; 0: no seal."""
    run, operator = table.run, table.operator
    idle = run.pipeline.watermark.seal_after_idle
    if idle is None or outcome.rows.judged:
        return 0
    places = other_places(operator, run.warehouse).values()
    bronze, rejects = run.warehouse.bronze.existing(), run.warehouse.rejects.existing()
    own = [last for table in (bronze, rejects) if (last := last_ingest(table)) is not None]
    others = [last for place in places if (last := last_ingest(place.existing())) is not None]
    # A run before the newest batch may have stood for a time to come, as by a slip of the year.
    newest = max(own, default=None)
    known = (one for one in own if one == newest or one[1] <= run.scheduled_ms)
    ingested = (scheduled_ms for _, scheduled_ms in (*known, *others))
    return seal_frontier_ms(
        run.scheduled_ms,
        max(ingested, default=None),
        idle,
        operator.traits.seal_delay(run.pipeline.watermark.delay),
        operator.rows_in(bronze).newest_end_ms(),
    )


def _frontier(table: TableRun) -> Frontier:
    """The frontier that the batch noted with what it appended; one that appended nothing took
    gold's.

    A held run may have been published since a batch: that moved gold's frontier.
    """
    gold = table.state
    noted = close_frontiers(table.changes.existing(), table.query, gold.changes)
    return lambda batch, _: gold.close_ms if batch is None else noted.get(batch, gold.close_ms)


def seal_frontier_ms(
    scheduled_ms: int,
    last_ingest_ms: int | None,
    idle: timedelta,
    delay: timedelta,
    newest_end_ms: int,
) -> int:
    """Up to where windows are sealed, in milliseconds; 0 where the source is not idle for long
    enough. Pure, on the scheduler's clock.

    The engine's watermark moves only with newer events, so the last windows of a source that falls
    silent would never close. They are sealed once the source was idle for the pipeline's
    `seal_after_idle`; rows that come after that are late rows.

    Called for a run that listed its source and found no row. `last_ingest_ms` is the scheduled
    time of the last run that did (None: longer ago than any log knows), `newest_end_ms` the end
    of the newest window with a row.
    """
    idle_ms, delay_ms = idle // _MILLISECOND, delay // _MILLISECOND
    if last_ingest_ms is not None and scheduled_ms - last_ingest_ms < idle_ms:
        return 0
    return max(0, min(scheduled_ms - idle_ms - delay_ms, newest_end_ms))
