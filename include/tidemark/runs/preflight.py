"""Preflight: is there anything for Spark to do? Asked under the lease, before a JVM is started.

It looks at all that a run would look at, and changes nothing. At the first thing that is Spark's to
do, or that cannot be told, Spark is needed: to start it for nothing costs seconds, the other error
would leave rows lying.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.excluded import Excluded
from tidemark.gold.to_compute import Frontiers, to_compute
from tidemark.operators.operator import BRONZE
from tidemark.operators.other_inputs import other_places
from tidemark.operators.repaired import Repaired
from tidemark.pipeline.instants import instant_text
from tidemark.runs.clocks import watermark_due_ms
from tidemark.runs.contract.zone_changes import why_zones_differ
from tidemark.runs.erased_again import erased_again
from tidemark.runs.lookups import why_to_copy
from tidemark.runs.losses import check_losses
from tidemark.runs.repair_facts import checked_to_of, seal_ms, unpublished_batches
from tidemark.runs.run import Outcome, Run, TableRun
from tidemark.runs.tables_fit import why_tables_do_not_fit
from tidemark.runs.unfinished_act import ActKind, check_no_unfinished_act
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.place import TablePlace


@dataclass(frozen=True)
class SparkNeeded:
    """What a run has for Spark to do, or why that could not be told."""

    because: str


@dataclass(frozen=True)
class NothingNew:
    """What a run without Spark goes on from: its tables, and what the repair of each counted, which
    computed no window again."""

    tables: Mapping[str, TableRun]
    repaired: Mapping[str, Repaired]


def run_preflight(run: Run) -> NothingNew | SparkNeeded:
    """What is cheapest to tell comes first. Raises what the run itself would raise."""
    if check_no_unfinished_act(run.warehouse, unless=ActKind.FOLLOWING) is not None:
        return SparkNeeded("what the source changed is being followed, and that is not finished")
    check_losses(run.pipeline, run.warehouse)
    erased_again(run.pipeline, run.settings, run.warehouse)
    if because := _why_to_ingest(run) or why_to_copy(run) or why_tables_do_not_fit(run):
        return SparkNeeded(because)
    if because := why_zones_differ(run):
        return SparkNeeded(because)
    tables = {name: run.table(name) for name in run.pipeline.tables}
    repaired = {}
    for name, table in tables.items():
        if because := _why_to_aggregate(table):
            return SparkNeeded(f"{name}: {because}")
        found = _repaired(table)
        if isinstance(found, str):
            return SparkNeeded(f"{name}: {found}")
        repaired[name] = found
    return NothingNew(tables, repaired)


def _why_to_ingest(run: Run) -> str | None:
    ingest = run.ingest_checkpoint()
    if because := _why_unfinished(ingest):
        run.source.check(ingest)
        return f"ingest: {because}"
    return run.source.unread(ingest)


def _why_to_aggregate(table: TableRun) -> str | None:
    checkpoint = table.checkpoint
    if because := _why_unfinished(checkpoint):
        return because
    last = checkpoint.batches("commits")[-1]
    after, before = checkpoint.next_watermark_ms(last), checkpoint.offsets(last).watermark_ms
    if because := table.operator.why_due(before, after):
        return because
    others, read = other_places(table.operator, table.warehouse), table.versions_read()
    unread = _why_unread(BRONZE, table.bronze, checkpoint.delta_version(last)) or next(
        (found for one in others if (found := _why_unread(one, others[one], read[one] + 1))), None
    )
    return unread or _why_behind(table, after)


def _why_behind(table: TableRun, watermark_ms: int) -> str | None:
    """A join whose clock rows did not arrive has read all, and stands still (`check_ticks`)."""
    due = watermark_due_ms(table.clocks)
    if watermark_ms >= due:
        return None
    return f"its watermark is {instant_text(watermark_ms)}, and due at {instant_text(due)}"


def _why_unread(name: str, place: TablePlace, first: int) -> str | None:
    """Versions that only moved rows, or dropped some, are nothing to the stream."""
    version = place.existing().version()
    if first_append(place, first, version) is None:
        return None
    return f"{name} was read up to version {first - 1} of {version}"


def _why_unfinished(checkpoint: Checkpoint) -> str | None:
    if checkpoint.query_id() is None:
        return "its query has not started yet"
    case = checkpoint.restart_case()
    return None if case == "clean end" else f"its checkpoint is not at a clean end: {case}"


def _repaired(table: TableRun) -> Repaired | str:
    """What a repair finds where no window is to be computed again; else why one is."""
    gold, sealed_to, closed_ms = table.state, seal_ms(table, Outcome()), table.closed_ms()
    closed_to = max(gold.close_ms, closed_ms)
    if sealed_to > closed_to:
        return f"the source is idle, and windows up to {instant_text(sealed_to)} are to be sealed"
    batches, operator = unpublished_batches(table), table.reading(table.read_at())
    closes = operator.table.recomputes and not operator.table.recomputes_open
    if closes and closed_to > gold.close_ms:
        return f"what closed up to {instant_text(closed_to)} is to be computed from bronze"
    bronze, changes = table.bronze.existing(), table.changes.existing()
    emits = not operator.table.recomputes
    found = to_compute(
        Excluded.of(operator.rows_in(bronze), table.bronze, changes, gold.generation),
        table.gold.existing(),
        changes,
        gold,
        batches,
        Frontiers(gold.close_ms, closed_ms, sealed_to, table.frozen_before_ms(), emits),
    )
    if found.alone.num_rows:
        return f"{found.alone.num_rows:,} windows that were set aside are to be computed again"
    if found.rows.num_rows:
        return f"{found.rows.num_rows:,} closed windows have late rows"
    if found.opened.num_rows:
        return f"{found.opened.num_rows:,} open windows have new rows, and are not published yet"
    if found.looked_up is not None and found.looked_up.num_rows:
        return f"{found.looked_up.num_rows:,} windows are others by what lookups say now"
    checked_to = checked_to_of(table, bronze.version())
    return Repaired(found.batches, (), sealed_to, checked_to)
