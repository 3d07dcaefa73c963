"""A repartition of a pipeline's state, as far as it needs no engine: its plan, and its record.

The act itself is `streaming/state/repartition.py`: only the engine writes state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_repartition import RepartitionPlan, plan_repartition
from tidemark.errors import NotPublishable, RepartitionRefused
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.contract import PARTITIONS, write_contract
from tidemark.runs.contract.recorded import queries_of
from tidemark.runs.requests import RepartitionRequest
from tidemark.runs.results.newest_result import held_run
from tidemark.runs.results.repartition_result import QueryRepartition
from tidemark.runs.unfinished_act import ActKind, PipelineAct
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.checkpoints_in_use import InUse, checkpoints_in_use
from tidemark.upkeep.record import REPARTITION, append_upkeep, has_upkeep, row_head

_UNTOUCHED = "Nothing was changed."


@dataclass(frozen=True)
class PlannedRepartition:
    """A table's query and what a repartition would do with its state."""

    query: InUse
    plan: RepartitionPlan


def plan_repartitions(
    pipeline: Pipeline,
    warehouse: Warehouse,
    settings: Settings,
    asked: RepartitionRequest,
    now: datetime,
) -> tuple[PlannedRepartition, ...]:
    """The queries whose state would get other partitions; nothing is changed. `now` is in UTC.

    RepartitionRefused where a run is held, where one of them may not be touched, or where none has
    another number by now.
    """
    if missing := [name for name in asked.tables if name not in pipeline.tables]:
        tables = ", ".join(pipeline.tables)
        raise RepartitionRefused(
            f"{missing[0]} is no table of {pipeline.name}, which has {tables}. {_UNTOUCHED}"
        )
    with suppress(NotPublishable):
        held = held_run(pipeline.name, settings)[1]
        raise RepartitionRefused(
            f"The run {held.run_id} of {pipeline.name} is held. {_UNTOUCHED} Publish it, or run "
            "the pipeline again; then the state can get other partitions."
        )
    found = [
        PlannedRepartition(one, _plan(one, pipeline, now))
        for one in checkpoints_in_use(pipeline, warehouse)
        if one.table != INGEST and (not asked.tables or one.table in asked.tables)
    ]
    reasons = [*_reasons(found, asked)]
    if reasons:
        raise RepartitionRefused(f"{' '.join(reasons)} {_UNTOUCHED}")
    return tuple(one for one in found if one.plan.partitions not in (None, asked.partitions))


def _plan(one: InUse, pipeline: Pipeline, now: datetime) -> RepartitionPlan:
    if not one.place.names():
        return RepartitionPlan(None)
    facts = read_checkpoint(one.place)
    known = QueryFacts(
        output_mode=pipeline.tables[one.table].output_mode, keeps_state=one.keeps_state
    )
    check = check_state(inventory(facts, one.keeps_state), pipeline.advanced.state.limits)
    return plan_repartition(facts, judge_checkpoint(facts, now, known), check)


def _reasons(found: Sequence[PlannedRepartition], asked: RepartitionRequest) -> Iterator[str]:
    """Why nothing is done."""
    for one in found:
        if one.plan.refused and one.plan.partitions != asked.partitions:
            yield f"{one.query.name} ({one.query.place.uri}): {one.plan.refused}"
        elif one.plan.partitions is None and asked.tables:
            yield f"{one.query.name} keeps no state, or has not run yet."
    numbers = {one.plan.partitions for one in found}
    if numbers == {None} and not asked.tables:
        yield "No table keeps state that has run."
    elif numbers <= {None, asked.partitions} and asked.partitions in numbers:
        yield f"The state has {asked.partitions} partitions already."


def begun_repartition(
    planned: Sequence[PlannedRepartition], partitions: int, run_id: str
) -> PipelineAct:
    """The act by which a pipeline is stopped: its id says to how many partitions, and of what."""
    tables = ",".join(one.query.table for one in planned)
    return PipelineAct(ActKind.REPARTITION, f"{partitions}:{tables}:{run_id}")


def queries_of_act(
    act: PipelineAct, pipeline: Pipeline, warehouse: Warehouse, asked: RepartitionRequest
) -> tuple[InUse, ...]:
    """Those whose state an act brings to other partitions. RepartitionRefused where it was begun
    otherwise than it is asked for now."""
    partitions, tables, _ = act.id.split(":", 2)
    if int(partitions) != asked.partitions or set(asked.tables) - {*tables.split(",")}:
        raise RepartitionRefused(
            f"The state of {tables} was to get {partitions} partitions, and that was not finished. "
            f"This try changed nothing. {act.ways_out(pipeline.name)}"
        )
    in_use = {one.table: one for one in checkpoints_in_use(pipeline, warehouse)}
    if gone := [name for name in tables.split(",") if name not in in_use]:
        raise RepartitionRefused(
            f"{gone[0]}, whose state was to get {partitions} partitions, is out of the pipeline's "
            "file. This try changed nothing. Put the table back, and repeat it."
        )
    return tuple(in_use[name] for name in tables.split(","))


def note_partitions(
    pipeline: Pipeline, settings: Settings, warehouse: Warehouse, table: str, partitions: int
) -> None:
    """Have the query's contract say what its state has by now, so that a file which says so too is
    no change. Repeatable."""
    (query,) = [one for one in queries_of(pipeline, settings) if one.name == table]
    if query.recorded is not None and not query.adopted:
        kept = {**query.recorded.settings, PARTITIONS: str(partitions)}
        warehouse.fence()
        write_contract(
            query.place, query.recorded.model_copy(update={"settings": kept}), warehouse.options
        )


def record_repartition(
    upkeep: OpsPlace,
    act: PipelineAct,
    pipeline: str,
    now: datetime,
    done: Sequence[tuple[InUse, QueryRepartition]],
    told: dict[str, Any],
) -> None:
    """A row in `ops/upkeep` for each query, once an act; `told`: by whom, and why."""
    run_id = act.id.split(":", 2)[2]
    if done and not has_upkeep(upkeep, pipeline, run_id):
        append_upkeep(
            upkeep,
            [
                row_head(pipeline, run_id, now, REPARTITION, query)
                | {"verdict": f"{one.before} to {one.after} partitions", **told}
                for query, one in done
            ],
        )
