"""The plan of a repair: the smallest change after which a query goes on rightly, without loss.

First what needs no batch to run again: files that only disturb, a last commit that cannot be read,
a lost id. Where the doctor would not let a query start even so, the checkpoint goes back to the
newest batch from which one can, and what came after is read again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from tidemark.checkpoint.doctor.findings import Diagnosis, FindingKind, Severity
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.doctor.watermark import watermark_ms
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.log_formats import CommitEntry, OffsetEntry
from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.mending import METADATA, Mending, plan_mending, with_id
from tidemark.checkpoint.rewind.plan import (
    ChangePlan,
    SinkPlan,
    damage_of,
    plan_rewind,
    seems_to_run,
)
from tidemark.checkpoint.rewind.read import CheckpointSnapshot, possible_batches, read_for_rewind
from tidemark.checkpoint.rewind.sinks import Sink
from tidemark.errors import RewindRefused
from tidemark.pipeline.instants import instant_text

# As far ahead of its batch's time as the doctor lets a watermark be.
_FAR = timedelta(hours=1)
# So many batches are tried, from the newest on; each is one look at the checkpoint.
_TRIED = 50
_ANEW = (
    "What can be lost then is what the findings say is at risk. Restore the files from a backup; "
    "or start the query anew: in a new folder, from where its source still has what the open "
    "windows and keys need, and into a new table, or one from which their rows were removed first."
)


def plan_repair(
    found: CheckpointSnapshot, sink: Sink | None, now: datetime, stopped: bool = False
) -> ChangePlan:
    """Plan the repair of a checkpoint. `now` is in UTC. Reads the sink, and the checkpoint again
    for each batch that is tried; RewindRefused where the sink does not tell what it has to."""
    mending = plan_mending(found, sink, now)
    mended = found.without(mending.removed)
    facts = with_id(mended.facts, mending)
    diagnosis = judge_checkpoint(facts, now)
    poisoned = any(one.kind is FindingKind.WATERMARK for one in diagnosis.findings)
    if not [*damage_of(diagnosis)] and not poisoned:
        return _in_place(found, mending, facts, diagnosis, now, stopped)
    unknown = any(one.severity is Severity.UNKNOWN for one in diagnosis.findings)
    # What a newer engine wrote may be right: nobody can tell what would be thrown away.
    back = None if unknown else _back(found, mended, mending, sink, now, stopped, poisoned)
    return back or _refused(found, diagnosis, facts)


def _in_place(
    found: CheckpointSnapshot,
    mending: Mending,
    facts: CheckpointFacts,
    diagnosis: Diagnosis,
    now: datetime,
    stopped: bool,
) -> ChangePlan:
    change = _change(found, mending, facts.commits.newest)
    idle = not change.removed and not change.written
    running = None if stopped or idle else seems_to_run(found, now)
    return ChangePlan(
        change,
        diagnosis,
        watermark_ms(facts),
        mending.notes,
        (running,) if running else (),
    )


def _back(
    found: CheckpointSnapshot,
    mended: CheckpointSnapshot,
    mending: Mending,
    sink: Sink | None,
    now: datetime,
    stopped: bool,
    poisoned: bool,
) -> ChangePlan | None:
    """The newest batch to which it can go back; None where there is none."""
    newest_first = reversed(possible_batches(mended))
    tried = (batch for batch in newest_first if not (poisoned and _ahead(mended, batch)))
    refused: ChangePlan | None = None
    for batch in islice(tried, _TRIED):
        plan = _to(batch, found, mended, mending, sink, now, stopped)
        if plan is None:
            continue
        if not plan.refused:
            return _poison_told(plan, mended, batch) if poisoned else plan
        # What hinders the newest one (a file that is gone, a sink that was not told) is told.
        refused = refused or (_poison_told(plan, mended, batch) if poisoned else plan)
    return refused


def _to(
    batch: int,
    found: CheckpointSnapshot,
    mended: CheckpointSnapshot,
    mending: Mending,
    sink: Sink | None,
    now: datetime,
    stopped: bool,
) -> ChangePlan | None:
    """The plan of going back to a batch; None where the state or the logs do not allow it."""
    try:
        facts = read_for_rewind(mended, batch)
    except RewindRefused:
        return None
    after = replace(facts.after, facts=with_id(facts.after.facts, mending))
    if [*damage_of(judge_checkpoint(after.facts, now))]:
        return None
    query_id = mending.query_id or _id(mended.facts)
    planned: SinkPlan | None = None
    if sink is not None and query_id is not None:
        planned = sink.plan(query_id, batch)
    plan = plan_rewind(replace(facts, after=after), planned, now, stopped)
    change = _change(found, mending, batch)
    whole = replace(
        plan.change,
        title=f"repaired, and taken back to the end of batch {batch}",
        listed=change.listed,
        removed=(*change.removed, *plan.change.removed),
        written=change.written,
    )
    return replace(plan, change=whole, notes=(*mending.notes, *plan.notes))


def _refused(found: CheckpointSnapshot, diagnosis: Diagnosis, facts: CheckpointFacts) -> ChangePlan:
    change = _change(found, Mending(), facts.commits.newest)
    ahead = (
        f"{one.known} No batch in the logs from which a query could go on is older than that."
        for one in diagnosis.findings
        if one.kind is FindingKind.WATERMARK
    )
    refused = (*damage_of(diagnosis), *ahead)
    return ChangePlan(change, diagnosis, watermark_ms(facts), (_ANEW,), refused)


def _change(found: CheckpointSnapshot, mending: Mending, last: int | None) -> CheckpointChange:
    return CheckpointChange(
        found.place.uri,
        "repaired",
        {name: file.size for name, file in found.files.items()},
        mending.removed,
        last,
        {} if mending.written is None else {METADATA: mending.written},
    )


def _id(facts: CheckpointFacts) -> str | None:
    return facts.query_id if isinstance(facts.query_id, str) else None


def _ahead(found: CheckpointSnapshot, batch: int) -> bool:
    """Did a batch leave a watermark far beyond its time, or not say what it left?"""
    offsets, commit = found.entry(batch), found.commit(batch)
    if not isinstance(offsets, OffsetEntry) or not isinstance(commit, CommitEntry):
        return True
    far = (offsets.batch_time_ms or 0) + _FAR // timedelta(milliseconds=1)
    return max(offsets.watermark_ms or 0, commit.next_watermark_ms) > far


def _poison_told(plan: ChangePlan, found: CheckpointSnapshot, batch: int) -> ChangePlan:
    commit = found.commit(batch + 1)
    moved = (
        f" to {instant_text(commit.next_watermark_ms)}" if isinstance(commit, CommitEntry) else ""
    )
    note = (
        f"Batch {batch + 1} moved the watermark{moved}, far beyond its own time. Its rows are read "
        "again: keep the row that is far in the future out before the watermark (in the query, "
        "or in the source), or it moves the watermark again."
    )
    return replace(plan, notes=(note, *plan.notes))
