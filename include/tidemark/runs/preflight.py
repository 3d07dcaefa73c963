"""Preflight: is there anything for Spark to do? Asked under the lease, before a JVM is started.

It looks at all that a run would look at, and changes nothing. At the first thing that is Spark's to
do, or that cannot be told, Spark is needed: to start it for nothing costs seconds, the other error
would leave rows lying.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.left_out import LeftOut
from tidemark.gold.plan import GoldState
from tidemark.gold.retention import table_frozen_before_ms
from tidemark.gold.state import gold_state
from tidemark.gold.to_compute import Frontiers, to_compute
from tidemark.operators.operator import BRONZE
from tidemark.operators.other_inputs import other_places, versions_read
from tidemark.operators.repaired import Repaired
from tidemark.pipeline.instants import instant_text
from tidemark.runs.clocks import clocks_of, watermark_due_ms
from tidemark.runs.losses import check_losses
from tidemark.runs.repair_facts import checked_to_of, seal_ms, unpublished_batches
from tidemark.runs.run import GoldStates, Outcome, Run
from tidemark.runs.tables_fit import why_tables_do_not_fit
from tidemark.runs.unfinished_rewind import check_no_unfinished_rewind
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.place import TablePlace


@dataclass(frozen=True)
class SparkNeeded:
    """What a run has for Spark to do, or why that could not be told."""

    because: str


@dataclass(frozen=True)
class NothingNew:
    """What a run without Spark goes on from: gold as it was found, and what each table's repair
    counted without computing a window again."""

    gold: GoldStates
    repaired: Mapping[str, Repaired]


def run_preflight(run: Run) -> NothingNew | SparkNeeded:
    """What is cheapest to tell comes first. Raises what the run itself would raise."""
    check_no_unfinished_rewind(run.warehouse)
    check_losses(run.pipeline, run.warehouse)
    if because := _why_to_ingest(run) or why_tables_do_not_fit(run):
        return SparkNeeded(because)
    tables = {name: run.warehouse.gold(name).existing() for name in run.pipeline.tables}
    gold = {name: gold_state(table, run.operator(name).inputs) for name, table in tables.items()}
    repaired = {}
    for name, state in gold.items():
        if because := _why_to_aggregate(run, name, state):
            return SparkNeeded(f"{name}: {because}")
        found = _repaired(run, name, state)
        if isinstance(found, str):
            return SparkNeeded(f"{name}: {found}")
        repaired[name] = found
    return NothingNew(gold, repaired)


def _why_to_ingest(run: Run) -> str | None:
    ingest = run.ingest_checkpoint()
    if because := _why_unfinished(ingest):
        run.source.check(ingest)
        return f"ingest: {because}"
    return run.source.unread(ingest)


def _why_to_aggregate(run: Run, name: str, gold: GoldState) -> str | None:
    checkpoint = run.query_checkpoint(name, gold.generation)
    if because := _why_unfinished(checkpoint):
        return because
    last = checkpoint.batches("commits")[-1]
    after, before = checkpoint.next_watermark_ms(last), checkpoint.offsets(last).watermark_ms
    operator = run.operator(name)
    if because := operator.why_due(before, after):
        return because
    others = other_places(operator, run.warehouse)
    read = versions_read(operator, run.warehouse, checkpoint)
    unread = _why_unread(BRONZE, run.warehouse.bronze, checkpoint.delta_version(last)) or next(
        (found for one in others if (found := _why_unread(one, others[one], read[one] + 1))), None
    )
    return unread or _why_behind(run, name, gold, after)


def _why_behind(run: Run, name: str, gold: GoldState, watermark_ms: int) -> str | None:
    """A join whose clock rows did not arrive has read all, and stands still (`check_ticks`)."""
    due = watermark_due_ms(clocks_of(run.pipeline, run.warehouse, name, gold.generation))
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


def _repaired(run: Run, name: str, gold: GoldState) -> Repaired | str:
    """What a repair finds where no window is to be computed again; else why one is."""
    sealed_to, closed_ms = seal_ms(run, name, Outcome()), run.closed_ms(name, gold.generation)
    closed_to = max(gold.close_ms, closed_ms)
    if sealed_to > closed_to:
        return f"the source is idle, and windows up to {instant_text(sealed_to)} are to be sealed"
    batches, operator = unpublished_batches(run, name, gold), run.reading(name, gold.generation)
    if operator.recomputes and closed_to > gold.close_ms:
        return f"what closed up to {instant_text(closed_to)} is to be computed from bronze"
    place, bronze = run.warehouse.bronze, run.warehouse.bronze.existing()
    changes = run.warehouse.changes(name, gold.generation).existing()
    frozen = table_frozen_before_ms(
        run.pipeline, run.warehouse, name, operator, bronze, gold.close_ms
    )
    found = to_compute(
        LeftOut.of(operator, place, bronze, changes, gold.generation),
        run.warehouse.gold(name).existing(),
        changes,
        gold,
        batches,
        Frontiers(gold.close_ms, closed_ms, sealed_to, frozen, not operator.recomputes),
    )
    if found.alone.num_rows:
        return f"{found.alone.num_rows:,} windows that were set aside are to be computed again"
    if found.rows.num_rows:
        return f"{found.rows.num_rows:,} closed windows have late rows"
    checked_to = checked_to_of(run, name, gold.generation, bronze.version())
    return Repaired(found.batches, (), sealed_to, checked_to)
