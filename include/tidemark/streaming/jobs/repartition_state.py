"""`spark-submit`'s entry for a repartition of state: arguments in, result written, exit code out.

Exit codes as in `entry.py`. The result file says which queries have other partitions, with figures.

The life of one, under the pipeline's lease:
1. look at each query's state, and plan (pure);
2. stop the pipeline: nothing else of it runs until 5;
3. bring the state of each to so many partitions (`streaming/state/repartition.py`), and say so in
   the query's contract, one after the other;
4. record them in `ops/upkeep`;
5. the pipeline goes on, also where one of them could not be done and is as it was.
Killed anywhere, no run starts until the same is asked for again, which does the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemark.errors import RepartitionFailed, RepartitionRefused, StateDiffers
from tidemark.runs.acceptance import this_user
from tidemark.runs.requests import NO_REASON_TO_REPARTITION, RepartitionRequest
from tidemark.runs.results.repartition_result import (
    QueryRepartition,
    RepartitionResult,
    repartition_lines,
)
from tidemark.runs.unfinished_act import ActKind, release_after, stop_for, unfinished_act
from tidemark.streaming.engine.repartition import check_repartitions
from tidemark.streaming.jobs.act import JobAct, SoFar, act_main, carried_out
from tidemark.streaming.state.repartition import repartition_state
from tidemark.upkeep.checkpoints_in_use import InUse
from tidemark.upkeep.pipeline_repartition import (
    begun_repartition,
    note_partitions,
    plan_repartitions,
    queries_of_act,
    record_repartition,
)
from tidemark.upkeep.record import REPARTITION


@dataclass
class RepartitionedSoFar(SoFar):
    """What a repartition has done so far."""

    done: list[tuple[InUse, QueryRepartition]] = field(default_factory=list)

    @property
    def queries(self) -> dict[str, QueryRepartition]:
        return {query.table: figures for query, figures in self.done}


def main(argv: Sequence[str] | None = None) -> int:
    """Repartition; the exit code. Never raises for an error that it can report."""
    request = RepartitionRequest.read(argv)
    return act_main(request, REPARTITION, repartition_once, repartition_lines, RepartitionResult)


def repartition_once(act: JobAct[RepartitionRequest]) -> RepartitionResult:
    """Repartition under the pipeline's lease; what happened, errors included."""
    return carried_out(act, RepartitionResult, RepartitionedSoFar(), _work)


def _work(act: JobAct[RepartitionRequest], done: RepartitionedSoFar) -> None:
    with act.lease(REPARTITION, finishes=ActKind.REPARTITION) as lease:
        act = act.under(lease, done)
        run, asked, progress = act.run, act.asked, act.progress
        warehouse, settings = run.warehouse, run.settings
        if not (asked.reason or "").strip():
            raise RepartitionRefused(f"{NO_REASON_TO_REPARTITION}. Nothing was changed.")
        begun = unfinished_act(warehouse)
        if begun is None:
            planned = plan_repartitions(run.pipeline, warehouse, settings, asked, act.started)
            begun = begun_repartition(planned, asked.partitions, run.run_id)
        queries = queries_of_act(begun, run.pipeline, warehouse, asked)
        spark = act.spark()
        check_repartitions(spark)
        stop_for(warehouse, begun)
        failed = None
        for one in queries:
            try:
                with progress.stage(f"state of {one.name}"), progress.tasks_of(spark):
                    figures = repartition_state(spark, one.place, asked.partitions)
            except (RepartitionFailed, StateDiffers) as error:
                failed = error
                break
            note_partitions(run.pipeline, settings, warehouse, one.table, asked.partitions)
            done.done.append((one, figures))
        told = {"by": run.by or this_user(), "reason": asked.reason}
        record_repartition(warehouse.upkeep, begun, run.pipeline.name, act.started, done.done, told)
        release_after(warehouse)
        if failed is not None:
            raise failed


if __name__ == "__main__":
    sys.exit(main())
