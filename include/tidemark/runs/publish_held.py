"""Publish a run that was held, and record how that went."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime

from tidemark.errors import LeaseHeld, NotPublishable, TidemarkError
from tidemark.gold.publish import publish_tables
from tidemark.gold.published import publish_note
from tidemark.gold.to_publish import to_publish
from tidemark.gold.views import write_views
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.recorded import as_it_ran
from tidemark.runs.losses import check_losses
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.recorded_runs import record_interrupted_run, try_to_record_run
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Outcome
from tidemark.runs.status.recorded_status import record_status
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.delta.place import shared_handles
from tidemark.storage.result_file import RunError, write_result
from tidemark.storage.warehouse import Warehouse

# The steps that follow a run's account, as its result times them.
_BEHIND_ACCOUNT = {"validate", "publish"}


@shared_handles()
def publish_and_record(
    pipeline: Pipeline, result: RunResult, uri: str, settings: Settings
) -> RunResult:
    """Publish a held run under the lease, and write into its result file and `ops/runs` how that
    went.

    An error of ours comes back in the result, for the caller to tell; any other is raised, once
    it is written. Where another run holds the lease nothing is written: it may be publishing this
    very run. A run whose publish failed can be published again. Raises NotPublishable, with
    nothing written, where the result is not one of this pipeline as it is now.
    """
    check_publishable(pipeline, result, uri)
    begin, failure = time.monotonic(), None
    try:
        with pipeline_lease(pipeline, settings, result.run_id, "publish") as lease:
            own = Warehouse.of(pipeline.name, settings).fenced(lease.check)
            check_losses(pipeline, own, result.tables)
            record_interrupted_run(pipeline, own)
            outcome = Outcome(tables=dict(result.tables))
            try:
                publish_run(pipeline, outcome, publish_note(result.run_id, result.started_at), own)
            finally:
                found = {"tables": outcome.tables, "held": outcome.held}
                result = result.model_copy(update=found)
    except LeaseHeld as error:
        return result.model_copy(update={"outcome": "failed", "error": RunError.of(error)})
    except Exception as error:  # noqa: BLE001  whatever it is, the result file says it
        failure = error
    return end_step(result, uri, settings, "publish", begin, datetime.now(UTC), failure)


def leaves_all_golds(pipeline: Pipeline, result: RunResult, settings: Settings) -> bool:
    """Would a publish of a held run write no row of gold?"""
    warehouse = Warehouse.of(pipeline.name, settings)
    return all(
        to_publish(
            operator_of(pipeline, name),
            pins,
            warehouse.gold(name),
            warehouse.changes(name, pins.generation),
        ).leaves_gold
        for name, pins in result.tables.items()
    )


def publish_run(
    pipeline: Pipeline, outcome: Outcome, note: PublishedNote, warehouse: Warehouse
) -> None:
    """Publish what a run pinned, and bring the views there, for whoever holds the lease; what gold
    came to is told in its outcome."""
    # By the file that the run had: a change of it is for a run to ask about, and by other windows
    # dates of bronze would go that open ones need.
    ran = as_it_ran(pipeline, warehouse)
    publish_tables(ran, outcome.tables, note, warehouse)
    outcome.held = False
    write_views(ran.tables, warehouse)


def end_step(
    run: RunResult,
    uri: str,
    settings: Settings,
    step: str,
    begin: float,
    ended_at: datetime,
    failure: Exception | None,
) -> RunResult:
    """A held run after a step that began at `begin` of the monotonic clock, as it is written into
    its result file, and into `ops/runs` unless it is held still and well.

    A failure that is none of ours is raised, once it is written.
    """
    ended = run.model_copy(
        update={
            "outcome": "failed" if failure else "succeeded",
            "error": RunError.of(failure) if failure else None,
            "seconds": {**run.seconds, step: round(time.monotonic() - begin, 3)},
            "ended_at": ended_at,
        }
    )
    write_result(uri, ended, settings.storage_options)
    if failure or not ended.held:
        try_to_record_run(Warehouse.of(ended.pipeline, settings).runs, ended)
        record_status(ended.pipeline, settings, ended_at)
    if failure and not isinstance(failure, TidemarkError):
        raise failure
    return ended


def check_publishable(pipeline: Pipeline, result: RunResult, uri: str) -> None:
    """A run can be published when it pinned every table and is accounted for, even if an earlier
    publish failed."""
    if result.pipeline != pipeline.name:
        raise NotPublishable(
            f"{uri} is the result of a run of `{result.pipeline}`, not of `{pipeline.name}`. "
            "Nothing was published. Name the pipeline that ran."
        )
    if result.tables.keys() != pipeline.tables.keys():
        cause = f", which failed with {result.error.type}," if result.error else ""
        raise NotPublishable(
            f"The run {result.run_id}{cause} pinned {_names(result.tables)}, and the pipeline "
            f"`{pipeline.name}` has {_names(pipeline.tables)}. Nothing was published. Run the "
            "pipeline again: that run publishes what this one left as well."
        )
    # Its tables are pinned before the account, and what failed behind that has begun one of these.
    if result.error is not None and not _BEHIND_ACCOUNT & result.seconds.keys():
        raise NotPublishable(
            f"The run {result.run_id} failed with {result.error.type} before its account was "
            "written and checked. Nothing was published. Run the pipeline again: that run "
            "publishes what this one left as well."
        )


def _names(tables: Iterable[str]) -> str:
    return ", ".join(tables) or "no table"
