"""A rewind of a pipeline as it was asked for, and its plan: what goes back, and why it may not.

Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

from deltalake import DeltaTable

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.rewind.plan import damage_of, unfit
from tidemark.checkpoint.rewind.read import (
    ReadAgain,
    RewindFacts,
    list_checkpoint,
    read_for_rewind,
)
from tidemark.errors import MigrationRefused, RewindRefused
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.other_readers import other_readers
from tidemark.gold.plan import CHANGES, CLOSE, IDENTITIES, noted_name
from tidemark.gold.retention import open_and_given_up_ms
from tidemark.gold.state import is_published
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.instants import STAMP, instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.retract.change import read_retraction
from tidemark.recompute.rewind.change import (
    GoldBack,
    IngestBack,
    LeftOut,
    PipelineChange,
    Reader,
    read_change,
)
from tidemark.recompute.rewind.input import (
    accepted_since,
    copied_checkpoint,
    files_read,
    gone_since,
    left_out_files,
    lost_again,
    notes_text,
    notes_up_to,
    passed_over,
    read_since,
    with_left_out,
)
from tidemark.recompute.rewind.past_runs import PastRun, PastRuns, last_batch, past_runs, query_of
from tidemark.recompute.rewind.tables import (
    PlannedBack,
    newest_published,
    newest_with,
    plan_back,
    published_by,
)
from tidemark.recompute.table_change import change_of
from tidemark.runs.acceptance import this_user
from tidemark.runs.found import QUERY, TableInventory, found_tables, started_operator
from tidemark.runs.generations import ABANDONED, abandoned, generations
from tidemark.runs.requests import RewindRequest
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    check_no_unfinished_act,
    rewind_folder,
    unfinished_act,
)
from tidemark.sources.kinds import source_handle
from tidemark.sources.notes import AcceptedLoss, left_out
from tidemark.sources.source import LossAcceptance, SourceHandle
from tidemark.storage.generation import GENERATION, generation_of
from tidemark.storage.warehouse import Warehouse


def is_of(change: PipelineChange, asked: RewindRequest) -> bool:
    """Is the change that was begun what is asked for?"""
    if asked.finishes or change.is_of_try(asked.run_id):
        return True
    files = {one.file for one in change.without}
    named = {name: {one for one in files if one.endswith(name)} for name in asked.without}
    if not all(named.values()) or files != set().union(*named.values()):
        return False
    if asked.undo is not None:
        return change.ingest.restored_from == asked.undo
    return asked.to_run is not None and change.to_run == asked.to_run


def planned(
    pipeline: Pipeline, settings: Settings, asked: RewindRequest, now: datetime
) -> PipelineRewindPlan:
    """Nothing is written. RewindRefused where it is nothing that can be planned, RewindUnfinished
    where another one is in the middle that it does not take back."""
    warehouse = Warehouse.of(pipeline.name, settings)
    if asked.undo is not None:
        check_no_unfinished_act(warehouse, unless=ActKind.REWIND)
        runs = past_runs(pipeline, warehouse)
        return plan_undo(pipeline, settings, runs, now, asked)
    check_no_unfinished_act(warehouse)
    runs = past_runs(pipeline, warehouse)
    if asked.to_offsets:
        to = run_before_offsets(pipeline, settings, runs, asked.offsets)
    elif asked.to_run is not None:
        to = runs.named(asked.to_run)
    else:
        raise RewindRefused(
            f"No rewind of {pipeline.name} was begun that would have to be finished. Say to the "
            "end of which run it goes back: --to-run RUN. Nothing was changed."
        )
    return plan_to_run(pipeline, settings, runs, to, now, asked)


def run_before_offsets(
    pipeline: Pipeline, settings: Settings, runs: PastRuns, offsets: Mapping[str, int]
) -> PastRun:
    """The newest run that had read none of these offsets, by the parts of the source that have
    them, nor later ones. RewindRefused where there is none."""
    warehouse = Warehouse.of(pipeline.name, settings)
    ingest, source = ingest_checkpoint(warehouse), source_handle(pipeline, settings)
    label = shown(f"{part} at {offset:,}" for part, offset in sorted(offsets.items()))
    for run in reversed(runs.runs):
        read = _read_to(source, ingest, last_batch(warehouse, ingest, run))
        if unknown := sorted(offsets.keys() - read.keys()):
            raise RewindRefused(
                f"At the end of {run.run} nothing was read of {shown(unknown)}: it is none of the "
                f"partitions that {pipeline.name} reads. Nothing was changed."
            )
        if all(read[part] <= offset for part, offset in offsets.items()):
            return run
    raise RewindRefused(
        f"No run is known at whose end {pipeline.name} had not read {label} yet, or the runs to go "
        "back to are all later. Nothing was changed."
    )


def _read_to(source: SourceHandle, ingest: Checkpoint, batch: int) -> Mapping[str, int]:
    found = source.read_to(ingest, batch)
    if found is None:
        raise RewindRefused(
            f"{source.pipeline.source.label} has no offsets of its own to go back to: name a run "
            "(--to-run). Nothing was changed."
        )
    return found


@dataclass(frozen=True)
class PipelineRewindPlan:
    """What would be done to a pipeline, what has to be known before it is, and why it is refused:
    empty where it may be."""

    change: PipelineChange
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Versions:
    """Of the tables that go back; of gold by table."""

    bronze: int
    rejects: int
    gold: Mapping[str, int]


def plan_to_run(
    pipeline: Pipeline,
    settings: Settings,
    runs: PastRuns,
    to: PastRun,
    now: datetime,
    asked: RewindRequest,
) -> PipelineRewindPlan:
    """Take a pipeline back to the end of a run. `now`, in UTC, names the rewind; `asked` is without
    which files, why, and by whom.

    RewindRefused where the checkpoint or a table does not reach back so far; raises what says that
    the source cannot be asked.
    """
    warehouse = Warehouse.of(pipeline.name, settings)
    ingest = ingest_checkpoint(warehouse)
    query, batch = query_of(ingest), last_batch(warehouse, ingest, to)
    facts = read_for_rewind(list_checkpoint(ingest), batch)
    taken = facts.read_again
    without = left_out_files(pipeline, settings, ingest, taken, asked.without, batch)
    told = _accepted(asked, now)
    again, still = _not_left_out(taken, without, left_out(ingest))
    facts = replace(facts, read_again=again)
    back = IngestBack(
        query=query,
        listed={name: file.size for name, file in facts.before.files.items()},
        removed=facts.going,
        batch=batch,
        notes=with_left_out(notes_up_to(ingest, batch), passed_over(without, told)),
        notes_before=notes_text(ingest),
    )
    versions = _Versions(
        newest_with(warehouse.bronze, to.bronze, batch, partial(_follows, warehouse)),
        newest_with(warehouse.rejects, to.rejects, batch, partial(_follows, warehouse)),
        dict(_golds_at(pipeline, warehouse, runs, to)),
    )
    label = f"the end of run {to.run}, which ended at {to.ended_at:%Y-%m-%dT%H:%M:%SZ}"
    plan = _plan(pipeline, settings, versions, back, label, told)
    reasons = (
        *damage_of(judge_checkpoint(facts.after.facts, now)),
        *unfit(facts),
        *_way_on(again),
        *accepted_since(ingest, batch),
        *lost_again(pipeline, settings, ingest, batch),
    )
    update = {
        "to_run": to.run,
        "asked_by": asked.run_id,
        "undone": runs.after(to.ended_at),
        "without": without,
    }
    change = plan.change.model_copy(update=update)
    notes = (*_of_files(facts), *_still_out(still), *plan.notes)
    return PipelineRewindPlan(change, notes, (*reasons, *plan.refused))


def _follows(warehouse: Warehouse, act: str) -> bool:
    """Did an act take rows out as the source had changed them?"""
    folder = PipelineAct(ActKind.RETRACTION, act).folder(warehouse)
    return read_retraction(folder).follows is not None


def _accepted(asked: RewindRequest, now: datetime) -> LossAcceptance:
    return LossAcceptance((asked.reason or "").strip(), asked.by or this_user(), now)


def _golds_at(
    pipeline: Pipeline, warehouse: Warehouse, runs: PastRuns, to: PastRun
) -> Iterator[tuple[str, int]]:
    """The versions of gold to go back to. Not of one that was moved away and built anew since: its
    versions have other numbers."""
    known = runs.until(to.ended_at)
    for name, version in to.gold.items():
        gold = warehouse.gold(name).open() if name in pipeline.tables else None
        if gold is not None and published_by(gold, version) in known:
            yield name, newest_published(warehouse.gold(name), version)


def plan_undo(
    pipeline: Pipeline, settings: Settings, runs: PastRuns, now: datetime, asked: RewindRequest
) -> PipelineRewindPlan:
    """Take a pipeline to where it was before a rewind, `undo`. What runs read since is read again.
    RewindRefused where its folder holds no backup."""
    rewind = str(asked.undo)
    warehouse = Warehouse.of(pipeline.name, settings)
    before = read_change(rewind_folder(warehouse, rewind))
    if before.over_unfinished:
        raise RewindRefused(
            f"The rewind {rewind} took back one that was not finished, and before it the tables "
            "did not fit each other: there is nothing to go back to. Nothing was changed."
        )
    ingest, copy = ingest_checkpoint(warehouse), copied_checkpoint(warehouse, rewind)
    had = files_read(copy)
    again, known = read_since(ingest, had), left_out(ingest)
    without = left_out_files(pipeline, settings, ingest, again, asked.without)
    told = _accepted(asked, now)
    left, still = _not_left_out(again, without, known)
    # Those too that no run has come by yet.
    still += tuple(one for one in known if one.part not in {*had, *again.uris})
    listed = {name: facts.size for name, facts in list_checkpoint(ingest).files.items()}
    committed = (name.removeprefix("commits/") for name in before.ingest.listed)
    back = IngestBack(
        query=before.ingest.query,
        listed=listed,
        removed=tuple(name for name in listed if name not in before.ingest.listed),
        restored_from=rewind,
        batch=max((int(one) for one in committed if one.isdecimal()), default=-1),
        notes=with_left_out(before.ingest.notes_before, (*still, *passed_over(without, told))),
        notes_before=notes_text(ingest),
    )
    versions = _Versions(
        before.bronze.seen,
        before.rejects.seen,
        {one.table: one.back.seen for one in before.golds if one.back is not None},
    )
    label = f"what it was before the rewind {rewind}"
    plan = _plan(pipeline, settings, versions, back, label, told)
    reasons = (
        *damage_of(judge_checkpoint(list_checkpoint(copy).facts, now)),
        *gone_since(left),
        *_way_on(left),
        *lost_again(pipeline, settings, copy, back.batch),
    )
    update = {
        "asked_by": asked.run_id,
        "undone": (before.run_id, *runs.after(before.planned_at)),
        "over_unfinished": unfinished_act(warehouse) is not None,
        "without": without,
    }
    change = plan.change.model_copy(update=update)
    notes = (*_still_out(still), *plan.notes)
    return PipelineRewindPlan(change, notes, (*reasons, *plan.refused))


def _plan(
    pipeline: Pipeline,
    settings: Settings,
    versions: _Versions,
    ingest: IngestBack,
    to: str,
    told: LossAcceptance,
) -> PipelineRewindPlan:
    warehouse = Warehouse.of(pipeline.name, settings)
    bronze = plan_back(warehouse.bronze, versions.bronze, ingest.query)
    rejects = plan_back(warehouse.rejects, versions.rejects, ingest.query)
    tables = found_tables(pipeline, warehouse)
    planned = [plan_gold(found, versions.gold.get(found.name)) for found in tables]
    golds = [one for one in planned if one is not None]
    readers = (Reader(pipeline=one.pipeline, table=one.table) for one in other_readers(warehouse))
    stamp = f"{told.at:{STAMP}}"
    change = PipelineChange(
        id=stamp,
        run_id=f"rewind__{stamp}",
        pipeline=pipeline.name,
        planned_at=told.at,
        to=to,
        ingest=ingest,
        bronze=bronze.back,
        rejects=rejects.back,
        golds=tuple(back for back, _ in golds),
        readers=tuple(readers),
        by=told.by,
        reason=told.reason or None,
    )
    backs = [bronze, rejects, *(one for _, one in golds if one is not None)]
    return PipelineRewindPlan(
        change,
        (*_joined(one.notes for one in backs), *_of_tables(change)),
        (*_joined(one.refused for one in backs), *_cannot_begin(pipeline, settings, golds)),
    )


def _joined(sentences: Iterable[Iterable[str]]) -> Iterator[str]:
    return chain.from_iterable(sentences)


def _cannot_begin(
    pipeline: Pipeline, settings: Settings, golds: Iterable[tuple[GoldBack, object]]
) -> Iterator[str]:
    """Why a table could not begin a new generation."""
    for back, _ in golds:
        try:
            change_of(pipeline, settings, back.table, rebuild=True)
        except MigrationRefused as error:
            yield str(error)
        operator = operator_of(pipeline, back.table)
        warehouse, close = Warehouse.of(pipeline.name, settings), back.transactions.get(CLOSE, 0)
        given_up = open_and_given_up_ms(warehouse, back.table, operator, close)
        if close and given_up is not None:
            yield (
                f"Windows of {back.table} that were open then begin before "
                f"{instant_text(given_up)}, and it has noted that it needs no row of the other "
                "bronze which these may match: they may be gone (`keep`)."
            )


def _not_left_out(
    again: ReadAgain, without: Iterable[LeftOut], known: Iterable[AcceptedLoss]
) -> tuple[ReadAgain, tuple[AcceptedLoss, ...]]:
    """What is read again, and which of the rest stay left out as a rewind before this one said."""
    asked = {one.file for one in without}
    still = tuple(one for one in known if one.part in again.uris and one.part not in asked)
    return again.without({*asked, *(one.part for one in still)}), still


def _way_on(again: ReadAgain) -> Iterator[str]:
    if again.gone:
        yield 'Or go on without them: --without FILE --reason "…". Then their rows stay away.'


def _still_out(still: Sequence[AcceptedLoss]) -> Iterator[str]:
    if still:
        files = shown(one.part for one in still)
        yield f"Stays left out, as a rewind before this one was told: {files}."


def _of_files(facts: RewindFacts) -> Iterator[str]:
    again = facts.read_again
    if again.not_checked:
        yield (
            f"{again.files:,} files of the source are read again, and could not be looked for: "
            f"{again.not_checked}"
        )
    elif again.files:
        yield f"{again.files:,} files of the source are read again; all are there."
    if again.changed:
        yield (
            f"{len(again.changed):,} of them have changed since, and are read as they are now: "
            f"{shown(again.changed)}."
        )


def _of_tables(change: PipelineChange) -> Iterator[str]:
    for gold in change.golds:
        if gold.stays:
            yield (
                f"Gold of {gold.table} was not published by then, or was built anew since: what is "
                "closed in it stays closed, and is corrected as its rows come again."
            )
    for reader in change.readers:
        yield (
            f"{reader.table} of {reader.pipeline} joins with this bronze: it begins a new "
            "generation too, and is corrected as the rows come again."
        )


def plan_gold(
    found: TableInventory, version: int | None
) -> tuple[GoldBack, PlannedBack | None] | None:
    """Take gold back to a version; None where the table has neither gold nor a query.

    Without one it stays as it is (`stays`): what is closed in it stays closed, and its windows are
    computed anew.
    """
    gold = found.gold.table
    published = gold is not None and is_published(gold)
    if not published and found.query.id is None:
        return None
    newest = generations(found.warehouse, found.name)[-1]
    if gold is None or not published:
        return GoldBack(table=found.name, back=None, stays=True, newest_generation=newest), None
    planned = plan_back(found.gold.place, gold.version() if version is None else version)
    then = found.gold.place.at_version(planned.back.version)
    transactions = _transactions(found, then) | {ABANDONED: max(abandoned(gold), newest)}
    back = GoldBack(
        table=found.name,
        back=planned.back,
        stays=version is None,
        transactions=transactions,
        newest_generation=newest,
    )
    return back, planned


def _transactions(found: TableInventory, then: DeltaTable) -> dict[str, int]:
    """What gold said of itself at a version, by all names that it may have noted."""
    warehouse, generation = found.warehouse, generation_of(then)
    operator = started_operator(found.content, warehouse, found.name, generation)
    changes = warehouse.changes(found.name, generation).open()
    ids = {one.name: one.id for one in (found.bronze, found.rejects, *found.others)}
    ids[INGEST] = found.ingest.id
    ids[CHANGES] = None if changes is None else str(changes.metadata().id)
    ids[QUERY] = query_checkpoint(warehouse, found.name, generation).query_id()
    noted = [noted_name(name, identity) for name, identity in ids.items() if identity is not None]
    names = (CHANGES, CLOSE, GENERATION, IDENTITIES, *operator.inputs, *noted)
    versions = {name: then.transaction_version(name) for name in names}
    return {name: version for name, version in versions.items() if version is not None}
