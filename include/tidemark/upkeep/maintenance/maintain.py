"""The maintenance of a pipeline: its tables, also those of `ops`, its result files.

The life of one that is carried out:
1. take the pipeline's lease, over from one that was killed, but from nothing that lives;
2. look at each table and folder, and plan;
3. carry the plan out: drop old rows, pack small files, write checkpoints, remove files;
4. append a row for each table to `ops/upkeep`.
Killed anywhere, all of it can be repeated; the next one does what is left.

Checkpoints of generations that are not in use go once there is no way back to them. Their contracts
and their `changes` stay: a number is never used twice, and the history of a table's windows is told
by all of its generations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.errors import MaintenanceRefused
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import earlier, epoch_ms, instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import FIRST_GENERATION, INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.contract import read_contract
from tidemark.runs.found import REJECTS
from tidemark.runs.generations import abandoned, begun_at, generations
from tidemark.runs.losses import find_losses
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.recorded_runs import last_published
from tidemark.runs.repair_ops import move_ops_tables
from tidemark.runs.status.recorded_status import record_status
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import TIME, WRITTEN_AT
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.files import FileFacts
from tidemark.storage.generation import generation_in_use, generation_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.carry_out import carry_out_maintenance
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part, Work
from tidemark.upkeep.maintenance.plan_table import MaintainedTable, plan_table
from tidemark.upkeep.maintenance.readers import readers
from tidemark.upkeep.record import MAINTENANCE, append_upkeep


def plan_generations(
    pipeline: Pipeline, warehouse: Warehouse, keep: timedelta, now: datetime
) -> Iterator[MaintenancePlan]:
    """A plan for each checkpoint that is not in use; `now` is in UTC. None where gold is gone: then
    nobody can tell which one is.

    All of its files go together, `keep` after the last of them was written and the generation in
    use was begun, where that can be told.
    """
    for name in pipeline.tables:
        gold = warehouse.gold(name).open()
        if gold is None:
            continue
        used, left, begun = generation_of(gold), abandoned(gold), begun_at(gold)
        for number in generations(warehouse, name):
            checkpoint = query_checkpoint(warehouse, name, number)
            # A later one that ran and that nobody went back from: gold itself is an old one.
            is_lost = number > max(used, left) and checkpoint.last_batch("commits") is not None
            if number == used or is_lost:
                continue
            if not (files := warehouse.file_at(checkpoint.uri).real_files()):
                continue
            written = [facts.modified for facts in files.values()]
            last = max(written if begun is None else [begun, *written])
            going = tuple(sorted(files)) if last < now - keep else ()
            unused = f"not in use for {duration_text(keep)}"
            reason = unused if going else "there is still a way back to it"
            part = Part.of_files(Work.FORMER_CHECKPOINTS, files, going, reason)
            former = f"{name}, generation {number}"
            yield MaintenancePlan(former, checkpoint.uri, (part,), remove=going)


def plan_maintenance(
    pipeline: Pipeline, settings: Settings, now: datetime
) -> tuple[MaintenancePlan, ...]:
    """What is to be done, table by table; nothing is changed. `now` is in UTC.

    Where a run works meanwhile, a plan may be out of date when it is there.
    """
    return tuple(_plans(pipeline, settings, now))


def maintain_pipeline(
    pipeline: Pipeline, settings: Settings, run_id: str, now: datetime
) -> tuple[MaintenancePlan, ...]:
    """Do what is to be done, under the pipeline's lease; what was planned.

    A table for which it is refused is left as it is, and the others are maintained all the same
    (`check_no_maintenance_refused` tells of it). LeaseHeld where another works on the pipeline.
    """
    with pipeline_lease(pipeline, settings, run_id, "maintenance", ends_processes=False) as lease:
        warehouse = Warehouse.of(pipeline.name, settings).fenced(lease.check)
        move_ops_tables(warehouse)
        plans = tuple(_plans(pipeline, settings, now))
        for plan in plans:
            carry_out_maintenance(pipeline.name, plan, warehouse.table_at(plan.uri))
        warehouse.fence()
        # A repetition after a crash is another act, with rows of its own.
        rows = [_row(pipeline.name, run_id, now, plan) for plan in plans]
        append_upkeep(warehouse.upkeep, rows)
    record_status(pipeline.name, settings, now)
    return plans


def check_no_maintenance_refused(pipeline: str, plans: tuple[MaintenancePlan, ...]) -> None:
    """Raise MaintenanceRefused where it was refused for a table, and somebody can mend that."""
    refused = [plan for plan in plans if plan.refused and plan.advice]
    if refused:
        messages = " ".join(
            f"{one.name} ({one.uri}): {one.refused}. {one.advice}" for one in refused
        )
        raise MaintenanceRefused(
            f"Maintenance of `{pipeline}` left {len(refused)} of {len(plans)} places as they are, "
            f"so that no reader loses what it has yet to read. {messages} The others are "
            "maintained."
        )


def _plans(pipeline: Pipeline, settings: Settings, now: datetime) -> Iterator[MaintenancePlan]:
    keep, warehouse = settings.maintenance, Warehouse.of(pipeline.name, settings)
    # A table that is behind what rests on it is known by its version: a commit more would hide it.
    found = find_losses(pipeline, warehouse)
    behind = {loss.place: loss for loss in found if not loss.by_hand}
    for target in _targets(pipeline, settings):
        table = target.place.open()
        if table is None:
            continue
        if loss := behind.get(target.place.uri):
            why = loss.what.removesuffix(".")
            yield MaintenancePlan(target.name, loss.place, refused=why, advice=loss.way_out)
        else:
            plan = plan_table(target, table, keep, now)
            if target.name == REJECTS and not plan.refused:
                plan = with_old_rejects(plan, pipeline, settings, table, now)
            yield plan
    yield from _plans_of_ops(pipeline, warehouse, settings, now)
    yield from plan_generations(pipeline, warehouse, keep.retention, now)
    results = warehouse.results
    yield plan_results(results.uri, results.files(), keep.result_retention, now)


def _targets(pipeline: Pipeline, settings: Settings) -> Iterator[MaintainedTable]:
    tables, reading = Warehouse.of(pipeline.name, settings), readers(pipeline, settings)
    yield MaintainedTable("bronze", tables.bronze, reading[tables.bronze.uri])
    yield MaintainedTable(REJECTS, tables.rejects, reading[tables.rejects.uri])
    yield MaintainedTable("retracted", tables.retracted)
    yield MaintainedTable("replayed", tables.replayed)
    for name, table in pipeline.tables.items():
        changes = tables.changes(name, generation_in_use(tables, name))
        yield MaintainedTable(f"{name}/changes", changes, reading[changes.uri])
        yield MaintainedTable(f"{name}/gold", tables.gold(name))
        for view in table.views:
            yield MaintainedTable(f"{name}/views/{view}", tables.view(name, view))


def with_old_rejects(
    plan: MaintenancePlan,
    pipeline: Pipeline,
    settings: Settings,
    rejects: DeltaTable,
    now: datetime,
) -> MaintenancePlan:
    """The plan for rejects, in which those of the batches go up to the last one that was read
    longer ago than `keep_rejects`.

    By the file and by what a run has taken of it, the longer of the two: what nobody has accepted
    yet drops none, nor does a former one. A batch that is not at an end stays: it is repeated.
    """
    warehouse = Warehouse.of(pipeline.name, settings)
    place = warehouse.places.contract(INGEST, FIRST_GENERATION)
    taken = read_contract(place, warehouse.options)
    ended = ingest_checkpoint(warehouse).last_batch("commits")
    asked, ran = pipeline.keep_rejects, taken and taken.pipeline.keep_rejects
    if not asked or not ran or ended is None:
        return plan
    before = earlier(now, max(asked, ran))
    known, batch = dataset_of(rejects, f"_batch <= {ended}"), ds.field("_batch")
    is_old = (batch <= ended) & (ds.field("_batch_time") < pa.scalar(before, TIME))
    last = pc.max(known.to_table(["_batch"], filter=is_old)["_batch"]).as_py()
    if last is None:
        return plan
    going = known.count_rows(filter=batch <= last)
    why = f"of the batches up to {last:,}, read before {instant_text(epoch_ms(before))}"
    number = dataset_of(rejects).count_rows()
    part = Part(Work.OLD_ROWS, number, None, going, None, why)
    return replace(plan, parts=(part, *plan.parts), drop_rejects=int(last))


def _plans_of_ops(
    pipeline: Pipeline, warehouse: Warehouse, settings: Settings, now: datetime
) -> Iterator[MaintenancePlan]:
    """Of the pipeline's own tables of `ops/` that are there.

    A row ages from when it was written, by its writer's clock, and never by the time that its run
    stood for: a run of now may stand for any. `ops/batches` keeps all of its rows: a ledger that is
    built anew needs them. Nobody reads these tables commit by commit, so their logs need not be
    longer than readers of a version take.
    """
    keep = settings.maintenance.model_copy(update={"log_retention": settings.maintenance.retention})
    before = earlier(now, keep.ops_retention)
    old = f"written before {instant_text(epoch_ms(before))}"
    published = last_published(pipeline, warehouse)
    rules: tuple[tuple[OpsPlace, Callable[[DeltaTable], ds.Expression | None], str], ...] = (
        (warehouse.batches, lambda _: None, old),
        (warehouse.upkeep, lambda _: _since("time", before), old),
        (warehouse.quality, lambda _: _since("time", before), old),
        (warehouse.runs, partial(_of_runs, before, published), old),
        (warehouse.ledger, partial(_of_ledger, before), f"{old}; lines that do not balance stay"),
    )
    for place, stays_of, why in rules:
        if (table := place.own.open()) is None:
            continue
        target = MaintainedTable(f"ops/{place.uri.rpartition('/')[2]}", place)
        plan, stays = plan_table(target, table, keep, now), stays_of(table)
        if stays is not None and (going := _old_rows(table, pipeline.name, stays, why)):
            plan = replace(plan, parts=(going, *plan.parts), keep_rows=stays)
        yield plan


def plan_results(
    uri: str, files: Mapping[str, FileFacts], keep: timedelta, now: datetime
) -> MaintenancePlan:
    """The result files that nobody will read any more: last written longer ago than `keep`, by the
    listing of their folder. Pure."""
    before = earlier(now, keep)
    going = tuple(sorted(place for place, facts in files.items() if facts.modified < before))
    reason = f"written more than {duration_text(keep)} ago"
    part = Part.of_files(Work.RESULT_FILES, files, going, reason)
    return MaintenancePlan("results", uri, (part,), remove=going)


def _row(pipeline: str, run_id: str, time: datetime, plan: MaintenancePlan) -> dict[str, Any]:
    """The row of `ops/upkeep`; `time` is when the maintenance began, in UTC."""
    removing = [part for part in plan.parts if part.work is not Work.COMPACTION]
    return {
        "pipeline": pipeline,
        "run": run_id,
        "time": time,
        "kind": MAINTENANCE,
        "place": plan.name,
        "refused": plan.refused,
        "files_deleted": len(plan.remove),
        "bytes_deleted": sum(part.going_size or 0 for part in removing),
        "shares": [_share(part) for part in plan.parts],
    }


def _share(part: Part) -> dict[str, Any]:
    """Of a compaction, what is deleted is what it replaces."""
    return {
        "kind": str(part.work),
        "files": part.number,
        "bytes": part.size,
        "files_deleted": part.going,
        "bytes_deleted": part.going_size,
        "reasons": [part.reason],
    }


def _of_runs(before: datetime, published: datetime | None, table: DeltaTable) -> ds.Expression:
    """Of a version that did not note when a row was written, its run's start stands for that."""
    stays = _since("started_at", before)
    if _notes_when_written(table):
        stays = _since(WRITTEN_AT, before) & (stays | ds.field(WRITTEN_AT).is_valid())
    return stays if published is None else stays | _since("started_at", published)


def _of_ledger(before: datetime, table: DeltaTable) -> ds.Expression | None:
    """Lines of a version that did not note when they were written stay, and those that do not
    balance: they keep runs from being published, until somebody has mended them."""
    if not _notes_when_written(table):
        return None
    return _since(WRITTEN_AT, before) | (ds.field("difference") != 0)


def _notes_when_written(table: DeltaTable) -> bool:
    return any(field.name == WRITTEN_AT for field in table.schema().fields)


def _old_rows(table: DeltaTable, pipeline: str, stays: ds.Expression, reason: str) -> Part | None:
    """The rows that go, counted; None where none do. Only files that may hold such are opened."""
    known = dataset_of(table, f"pipeline = '{pipeline}'")
    own = ds.field("pipeline") == pipeline
    number = known.count_rows(filter=own)
    going = number - known.count_rows(filter=own & stays)
    return Part(Work.OLD_ROWS, number, None, going, None, reason) if going else None


def _since(column: str, instant: datetime) -> ds.Expression:
    field = ds.field(column)
    return (field >= pa.scalar(instant, TIME)) | field.is_null()
