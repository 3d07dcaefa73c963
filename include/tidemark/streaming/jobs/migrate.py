"""`spark-submit`'s entry for a migration: arguments in, result written, exit code out.

Exit codes as in `entry.py`. The result file says what changes, what is published, and the error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_fixed,
)

from tidemark.errors import LeaseHeld, MigrationRefused
from tidemark.gold.compared import Compared
from tidemark.gold.pins import TableResult
from tidemark.operators.repaired import MIGRATION, Recomputed
from tidemark.pipeline.instants import instant_text
from tidemark.recompute.migration_result import MigrationResult, migration_lines
from tidemark.recompute.table_change import Change, change_of
from tidemark.runs.lookups import copy_lookups, why_to_copy
from tidemark.runs.losses import check_losses
from tidemark.runs.reads_others import forget_former, note_as_reader
from tidemark.runs.requests import MigrationRequest
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.lease.lease import Lease, is_held
from tidemark.storage.result_file import RunError
from tidemark.streaming.gate import judge_publish
from tidemark.streaming.jobs.act import JobAct, act_main, result_of
from tidemark.streaming.jobs.recomputation import Recomputation
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.computed import Computed
from tidemark.streaming.recompute.migration import (
    Migration,
    apply_migration,
    balanced,
    compute_table,
    plan_migration,
)
from tidemark.streaming.recompute.widening import Widening, plan_widening, widen

# A run may take that long, and its lease is looked at so often.
_MOST_WAITED = timedelta(hours=1)
_LOOKED_AGAIN = timedelta(seconds=5)


def main(argv: Sequence[str] | None = None) -> int:
    """Migrate a table; the exit code. Never raises for an error that it can report."""
    request = MigrationRequest.read(argv)
    return act_main(
        request, MIGRATION, migrate_once, migration_lines, MigrationResult, table=request.table
    )


def migrate_once(act: JobAct[MigrationRequest]) -> MigrationResult:
    """Migrate under the pipeline's lease, or only look; what happened, errors included."""
    return _Migrating(act).carry_out()


class _Migrating(Recomputation[MigrationRequest, MigrationResult]):
    """The windows are computed without the lease, by bronze as it is then, and what comes to bronze
    meanwhile is caught up under it."""

    trigger = MIGRATION
    advice = (
        "Gold is as it was, and its generation goes on. Mend the data or the check and repeat the "
        'migration, or publish it as it is: the same command with --accept --reason "…".'
    )
    change: Change | None = None
    begun: tuple[SparkSession, Computed] | None = None
    widening: Widening | None = None
    plan: Migration | None = None
    found: Compared | None = None

    def begin(self) -> bool:
        """The long step. Where the other bronze that a join reads has its own upkeep, it has to
        know of that before."""
        run, progress = self.run, self.progress
        change = self._what_changes(self._is_alone())
        if change is None:
            return False
        if not self.request.dry_run:
            note_as_reader(run)
        self._copy_lookups()
        spark = self.act.spark()
        with progress.stage("compute"), progress.tasks_of(spark):
            self.begun = spark, compute_table(spark, run, self.request.table, change)
        return True

    def _copy_lookups(self) -> None:
        """All of it is computed with what lookups say now: one that is not copied is another."""
        if because := why_to_copy(self.run, only_missing=True) if self.request.dry_run else None:
            raise MigrationRefused(
                f"Nothing was looked at: {because}, and a dry run copies nothing. A run copies it, "
                "and the migration itself does."
            )
        if self.run.pipeline.lookup and not self.request.dry_run:
            with self.lease() as lease:
                for said in copy_lookups(replace(self.run, fence=lease.check)):
                    self.progress.say(said)

    def _is_alone(self) -> bool:
        """Beside a run that works, its tables do not fit each other for a moment, and it has a
        batch that it planned."""
        return not is_held(self.run.places.lease, self.run.settings.storage_options)

    def _what_changes(self, alone: bool) -> Change | None:
        """None where nothing is to change."""
        run, asked = self.run, self.request
        if alone:
            rebuilt = asked.table if asked.rebuild else None
            check_losses(run.pipeline, run.warehouse, rebuilt=rebuilt)
        self.change = change_of(run.pipeline, run.settings, asked.table, asked.rebuild, alone)
        return self.change if self.change.differences or asked.rebuild else None

    def lease(self) -> AbstractContextManager[Lease]:
        return _lease_once_free(self.act)

    def compare(self) -> Recomputed | None:
        """Catch up with bronze, and look at what gold would be."""
        asked, run, progress = self.request, self.run, self.progress
        change = self._what_changes(not asked.dry_run or self._is_alone())
        if change is None:
            return None
        assert self.begun is not None
        spark, computed = self.begun
        if not asked.dry_run:
            for said in copy_lookups(run):
                progress.say(said)
        with progress.stage("catch up"), progress.tasks_of(spark):
            self.widening = plan_widening(spark, run)
            self.plan = plan_migration(spark, run, asked.table, change, computed)
            self.found = self.plan.compared()
            if self.plan.gold_is_lost:
                progress.say(_without_gold(self.plan))
        with progress.stage("validate"), progress.tasks_of(spark):
            self.judged = judge_publish(run, self.plan)
        return None if asked.dry_run else balanced(self.plan)

    def apply(self, recomputed: Recomputed, note: PublishedNote) -> TableResult:
        assert self.plan is not None
        assert self.begun is not None
        if self.widening is not None:
            widen(self.begun[0], self.run, self.widening)
        return apply_migration(self.plan, recomputed, note)

    def settle(self) -> None:
        assert self.change is not None
        forget_former(self.run, self.request.table, self.change.former)

    def result(self, error: RunError | None) -> MigrationResult:
        facts: dict[str, Any] = {}
        if self.change is not None:
            facts |= {"changes": tuple(str(found) for found in self.change.differences)}
        if self.widening is not None:
            facts |= {"widened": self.widening.label}
        if self.plan is not None:
            facts |= {
                "bronze": self.plan.bronze,
                "former_generation": self.plan.table.generation,
            }
        if self.committed is not None:
            facts |= {
                "generation": self.committed.generation,
                "gold": self.committed.gold,
                "published": self.committed.published,
            }
        return result_of(self.act, MigrationResult, self, error, **facts)


def _without_gold(plan: Migration) -> str:
    frozen = plan.to.frozen_before_ms
    gone = ""
    if frozen is not None and plan.former.identity is None:
        gone = f"; of those before {instant_text(frozen)} neither bronze nor a history has the rows"
    return (
        f"what was published of {plan.name} is gone: every window has revision 0, closed are those "
        f"up to {instant_text(plan.table.state.close_ms)}{gone}"
    )


@contextmanager
def _lease_once_free(act: JobAct[MigrationRequest]) -> Iterator[Lease]:
    """The pipeline's lease; while a run holds it, that one is waited for: what was computed is not
    thrown away. LeaseHeld where it is not free within `_MOST_WAITED`."""
    with ExitStack() as stack:
        waiting = Retrying(
            retry=retry_if_exception_type(LeaseHeld),
            wait=wait_fixed(_LOOKED_AGAIN),
            stop=stop_after_delay(_MOST_WAITED),
            before_sleep=partial(_say_once, act.progress),
            reraise=True,
        )
        yield waiting(lambda: stack.enter_context(act.lease("migrate")))


def _say_once(progress: Progress, waiting: RetryCallState) -> None:
    if waiting.attempt_number == 1 and waiting.outcome is not None:
        progress.say(f"waits for its end: {waiting.outcome.exception()}")


if __name__ == "__main__":
    sys.exit(main())
