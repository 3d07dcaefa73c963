"""A job that computes a table again from bronze, compares, judges, and publishes by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from tidemark.gold.pins import TableResult
from tidemark.gold.published import publish_note
from tidemark.gold.views import write_views
from tidemark.operators.repaired import Recomputed
from tidemark.pipeline.instants import instant_of
from tidemark.quality.validate import Judged, check_none_failed
from tidemark.quality.verdicts import failures, verdict_line, warnings
from tidemark.recompute.backfill_result import BackfillResult
from tidemark.recompute.migration_result import MigrationResult
from tidemark.runs.pipeline_lease import OnLapse
from tidemark.runs.recorded_runs import record_interrupted_run, try_to_record_run
from tidemark.runs.requests import RecomputeRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.lease.lease import Lease
from tidemark.storage.result_file import RunError
from tidemark.streaming.gate import record_judged
from tidemark.streaming.jobs.entry import reported, takeover_text
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import StartSession

Request = TypeVar("Request", bound=RecomputeRequest)
Result = TypeVar("Result", BackfillResult, MigrationResult)


class Recomputation(ABC, Generic[Request, Result]):
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

    def __init__(
        self,
        run: Run,
        request: Request,
        progress: Progress,
        started: datetime,
        session: StartSession,
        on_lapse: OnLapse,
    ) -> None:
        self.run, self.request, self.progress = run, request, progress
        self.started, self.session, self.on_lapse = started, session, on_lapse
        self.judged: Judged | None = None
        self.data_docs: str | None = None
        self.published: TableResult | None = None
        self.took_over: str | None = None

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
            self.took_over = takeover_text(lease.took_over)
            self.run = run = replace(self.run, fence=lease.check)
            record_interrupted_run(run.pipeline, run.warehouse)
            recomputed = self.compare()
            if recomputed is None or self.judged is None:
                return
            result, accepted = self.result(None), self.request.accepted
            self.data_docs = record_judged(run, result, self.judged, accepted, result.ended_at)
            if accepted is None:
                check_none_failed(run.pipeline.name, run.run_id, self.judged.verdicts, self.advice)
            with self.progress.stage("publish"):
                note = publish_note(run.run_id, self.started, self.trigger)
                self.published = self.apply(recomputed, note)
                self.settle()
                # Gold of the others may not have the columns of the file yet.
                name = self.request.table
                write_views({name: run.pipeline.tables[name]}, run.warehouse)

    def told(self, error: RunError | None) -> dict[str, Any]:
        """What the results of all have."""
        return {
            "pipeline": self.run.pipeline.name,
            "table": self.request.table,
            "run_id": self.run.run_id,
            "dry_run": self.request.dry_run,
            "outcome": "failed" if error else "succeeded",
            "started_at": self.started,
            "ended_at": datetime.now(UTC),
            "took_over": self.took_over,
            "checks": tuple(self._check_lines()),
            "data_docs": self.data_docs,
            "error": error,
        }

    def _check_lines(self) -> Iterator[str]:
        """A line for each check that did not pass; none where it did not come to checks."""
        if self.judged is None:
            return
        for verdict in failures(self.judged.verdicts):
            yield f"check {'overridden' if self.published else 'failed'}: {verdict_line(verdict)}"
        for verdict in warnings(self.judged.verdicts):
            yield f"warning: {verdict_line(verdict)}"

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
            tables={} if self.published is None else {result.table: self.published},
            took_over=result.took_over,
            error=result.error,
            by=self.run.by,
            dag=self.run.dag,
            reason=self.request.reason,
        )
        try_to_record_run(self.run.warehouse.runs, row, self.progress.say)
