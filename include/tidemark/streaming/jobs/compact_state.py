"""`spark-submit`'s entry for a compaction: arguments in, snapshots, result written, exit code out.

Exit codes as in `entry.py`. The result file says which queries were compacted, with figures.

The life of one, under the pipeline's lease:
1. look at each checkpoint in use, and plan (pure);
2. compact those that are due, one after the other (`compact.py`);
3. record them in `ops/upkeep`;
4. housekeeping, which removes what no kept batch needs any more.
Killed anywhere, all of it can be repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidemark.runs.requests import CompactionRequest
from tidemark.runs.results.compaction_result import (
    CompactionResult,
    QueryCompaction,
    compaction_lines,
)
from tidemark.streaming.jobs.act import JobAct, SoFar, act_main, carried_out
from tidemark.streaming.jobs.entry import takeover_text
from tidemark.streaming.state.compact import compact_state
from tidemark.upkeep.pipeline_compaction import (
    Planned,
    check_no_compaction_refused,
    plan_compactions,
    record_compactions,
)
from tidemark.upkeep.pipeline_housekeeping import keep_checkpoints
from tidemark.upkeep.record import Kept


@dataclass
class CompactionSoFar(SoFar):
    """What a compaction has done so far."""

    compacted: list[tuple[Planned, QueryCompaction]] = field(default_factory=list)
    kept: tuple[Kept, ...] = ()

    @property
    def queries(self) -> dict[str, QueryCompaction]:
        return {planned.checkpoint.table: figures for planned, figures in self.compacted}

    @property
    def files_removed(self) -> int:
        return sum(one.plan.going_files for one in self.kept if one.plan is not None)

    @property
    def bytes_removed(self) -> int:
        return sum(one.plan.going_size for one in self.kept if one.plan is not None)


def main(argv: Sequence[str] | None = None) -> int:
    """Compact what is due; the exit code. Never raises for an error that it can report."""
    request = CompactionRequest.read(argv)
    return act_main(request, "compaction", compact_once, compaction_lines, CompactionResult)


def compact_once(act: JobAct[CompactionRequest]) -> CompactionResult:
    """Compact a pipeline under its lease; what happened, errors included.

    A query for which it is refused is left as it is, the others are compacted all the same, and the
    result has CompactionRefused.
    """
    done = CompactionSoFar()
    return carried_out(act, CompactionResult, done, _work)


def _work(act: JobAct[CompactionRequest], done: CompactionSoFar) -> None:
    with act.lease("compaction") as lease:
        done.took_over = takeover_text(lease.took_over)
        run, progress = replace(act.run, fence=lease.check), act.progress
        planned = plan_compactions(run.pipeline, run.warehouse, act.started, act.asked.every)
        wanted = [one for one in planned if one.plan and one.plan.stores]
        if wanted:
            spark = act.spark()
            try:
                for one in wanted:
                    assert one.plan is not None
                    place, name = one.checkpoint.place, one.checkpoint.name
                    with progress.stage(f"compaction of {name}"), progress.tasks_of(spark):
                        done.compacted.append((one, compact_state(spark, one.plan, place)))
            finally:
                rows = [(one.checkpoint, figures) for one, figures in done.compacted]
                record_compactions(
                    run.warehouse.upkeep, run.pipeline.name, run.run_id, act.started, rows
                )
            with progress.stage("housekeeping"):
                now = datetime.now(UTC)
                done.kept = keep_checkpoints(
                    run.pipeline, run.settings, run.warehouse, run.run_id, now
                )
        check_no_compaction_refused(run.pipeline.name, planned)


if __name__ == "__main__":
    sys.exit(main())
