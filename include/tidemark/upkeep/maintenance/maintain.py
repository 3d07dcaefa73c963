"""The maintenance of a pipeline: its tables, its part of `ops/`, its result files.

The life of one that is carried out:
1. take the pipeline's lease, which is never taken over for this;
2. look at each table and folder, and plan;
3. carry the plan out: pack small files, drop old rows, write checkpoints, remove files;
4. append a row for each table to `ops/upkeep`.
Killed anywhere, all of it can be repeated; the next one does what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidemark.errors import MaintenanceRefused
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import list_files
from tidemark.storage.lease.pipeline_lease import pipeline_lease
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.carry_out import carry_out_maintenance
from tidemark.upkeep.maintenance.old_rows import Ageing, ageing_tables, old_rows
from tidemark.upkeep.maintenance.plan import MaintenancePlan
from tidemark.upkeep.maintenance.plan_table import MaintainedTable, plan_table
from tidemark.upkeep.maintenance.readers import readers
from tidemark.upkeep.maintenance.record import record_maintenance
from tidemark.upkeep.maintenance.result_files import plan_results


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
    (`check_no_maintenance_refused` tells of it). LeaseHeld where another works on the pipeline or
    ended without giving the lease back: the next run takes it over, this never does.
    """
    warehouse, options = Warehouse.of(pipeline.name, settings), settings.storage_options
    with pipeline_lease(pipeline, settings, run_id, "maintenance", repairs=True) as lease:
        plans = tuple(_plans(pipeline, settings, now))
        for plan in plans:
            carry_out_maintenance(pipeline.name, plan, TablePlace(plan.uri, options, lease.check))
        lease.check()
        record_maintenance(warehouse.upkeep, pipeline.name, run_id, now, plans)
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
    places, options, keep = (
        Places(settings.root, pipeline.name),
        settings.storage_options,
        settings.maintenance,
    )
    for target in _targets(pipeline, settings):
        table = target.place.open()
        if table is not None:
            yield plan_table(target, table, keep, now)
    for ageing in ageing_tables(pipeline, settings, now):
        yield from _plan_ops(pipeline, ageing, settings, now)
    yield plan_results(
        places.results, list_files(places.results, options), keep.result_retention, now
    )


def _targets(pipeline: Pipeline, settings: Settings) -> Iterator[MaintainedTable]:
    tables, reading = Warehouse.of(pipeline.name, settings), readers(pipeline, settings)
    yield MaintainedTable("bronze", tables.bronze, reading[tables.bronze.uri])
    yield MaintainedTable("rejects", tables.rejects)
    for name in pipeline.tables:
        changes = tables.changes(name)
        yield MaintainedTable(f"{name}/changes", changes, reading[changes.uri])
        yield MaintainedTable(f"{name}/gold", tables.gold(name))


def _plan_ops(
    pipeline: Pipeline, ageing: Ageing, settings: Settings, now: datetime
) -> Iterator[MaintenancePlan]:
    """Only the pipeline's own partition is written; log and unused files are everybody's."""
    table = ageing.place.open()
    if table is None:
        return
    name = f"ops/{ageing.place.uri.rpartition('/')[2]}"
    target = MaintainedTable(name, ageing.place, only=pipeline.name)
    plan = plan_table(target, table, settings.maintenance, now)
    going = old_rows(table, pipeline.name, ageing)
    if going is not None:
        plan = plan.with_old_rows(going, ageing.stays)
    yield plan
