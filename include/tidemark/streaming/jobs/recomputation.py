"""A job that computes a table again from bronze, compares, judges, and publishes by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Generic, TypeVar

from tidemark.gold.pins import TableResult
from tidemark.gold.published import publish_note
from tidemark.gold.views import write_views
from tidemark.operators.repaired import Recomputed
from tidemark.pipeline.instants import instant_of
from tidemark.quality.validate import Judged, check_none_failed
from tidemark.recompute.backfill_result import BackfillResult
from tidemark.recompute.migration_result import MigrationResult
from tidemark.runs.recorded_runs import try_to_record_run
from tidemark.runs.requests import RecomputeRequest
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.lease.lease import Lease
from tidemark.storage.result_file import RunError
from tidemark.streaming.gate import check_lines, record_judged
from tidemark.streaming.jobs.act import JobAct, SoFar
from tidemark.streaming.jobs.entry import reported

Request = TypeVar("Request", bound=RecomputeRequest)
Result = TypeVar("Result", BackfillResult, MigrationResult)


class Recomputation(SoFar, ABC, Generic[Request, Result]):
    """One recomputation of a table: what is done, in which order, and what has been done so far, so
    that one that fails tells it too.

    1. `begin`, without the pipeline's lease;
    2. `compare`: what gold would be, and what its checks say of that; a dry run ends here;
    3. record the verdicts, and stop where one keeps it back;
    4. `apply`: append, account, and one commit of gold, which the views follow.
    """

    # What started the run, as `ops/runs` and gold's commits have it.
    trigger: ClassVar[str]
    # What to do where a check keeps it back.
    advice: ClassVar[str]

    def __init__(self, act: JobAct[Request]) -> None:
        self.act = act
        self.run, self.request, self.progress = act.run, act.asked, act.progress
        self.judged: Judged | None = None
        self.data_docs: str | None = None
        self.committed: TableResult | None = None
        self.table = act.asked.table

    @abstractmethod
    def begin(self) -> bool:
        """Refuse what cannot be done; False where there is nothing to do."""

    @abstractmethod
    def lease(self) -> AbstractContextManager[Lease]:
        """The pipeline's lease."""

    @abstractmethod
    def compare(self) -> Recomputed | None:
        """Plan, and set `judged`; nothing is written. What was computed, as the ledger tells it,
        where it is to be published: raises LedgerUnbalanced where it is not all of bronze. None
        where there is nothing to do, and in a dry run."""

    @abstractmethod
    def apply(self, recomputed: Recomputed, note: PublishedNote) -> TableResult:
        """Append, account, and commit gold; a repeat does nothing twice."""

    def settle(self) -> None:
        """What is left to do once gold is committed, and is done again where it did not come to
        that."""

    @abstractmethod
    def result(self, error: RunError | None) -> Result:
        """What has been done so far."""

    @property
    def checks(self) -> tuple[str, ...]:
        return check_lines(self.judged, self.committed is not None)

    def carry_out(self) -> Result:
        """What happened, errors included."""
        error = None
        try:
            if self.begin():
                self._work()
        except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
            error = reported(failure, self.progress)
        result = self.result(error)
        if not self.request.dry_run:
            self._record(result)
        return result

    def _work(self) -> None:
        if self.request.dry_run:
            self.compare()
            return
        with self.lease() as lease:
            self.run = run = self.act.under(lease, self).run
            recomputed = self.compare()
            if recomputed is None or self.judged is None:
                return
            result, accepted = self.result(None), self.request.accepted
            self.data_docs = record_judged(run, result, self.judged, accepted, result.ended_at)
            if accepted is None:
                check_none_failed(run.pipeline.name, run.run_id, self.judged.verdicts, self.advice)
            with self.progress.stage("publish"):
                note = publish_note(run.run_id, self.act.started, self.trigger)
                self.committed = self.apply(recomputed, note)
                self.settle()
                # Gold of the others may not have the columns of the file yet.
                write_views({self.table: run.pipeline.tables[self.table]}, run.warehouse)

    def _record(self, result: Result) -> None:
        """Its row in `ops/runs`; where it cannot be written, the next run records it."""
        row = RunResult(
            pipeline=result.pipeline,
            run_id=result.run_id,
            outcome=result.outcome,
            held=False,
            trigger=self.run.trigger,
            scheduled_at=instant_of(self.run.scheduled_ms),
            started_at=result.started_at,
            ended_at=result.ended_at,
            seconds=self.progress.seconds,
            versions={} if result.bronze is None else {"bronze": result.bronze},
            tables={} if self.committed is None else {result.table: self.committed},
            took_over=result.took_over,
            error=result.error,
            by=self.run.by,
            dag=self.run.dag,
            reason=self.request.reason,
        )
        try_to_record_run(self.run.warehouse.runs, row, self.progress.say)
