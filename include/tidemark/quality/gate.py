"""The gate between a held run and its publish, for whoever holds the run's result file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.errors import NotPublishable
from tidemark.gold.published import publish_note
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.record import last_failures, record_verdicts
from tidemark.quality.validate import Validated, check_none_failed, validate_result
from tidemark.quality.verdicts import CheckVerdict, ValidationResult
from tidemark.runs.acceptance import CheckOverride
from tidemark.runs.contract.recorded import as_it_ran
from tidemark.runs.publish_held import check_publishable, end_step, publish_run
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Outcome, Run, run_result
from tidemark.runs.without_spark import Step
from tidemark.storage.delta.place import shared_handles
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Gated:
    """A held run after its validation: its result, as it stands in its file now, and the verdicts.

    The run's `error` is ChecksFailed where it may not be published, or why nobody can tell.
    """

    run: RunResult
    validation: ValidationResult


@shared_handles()
def validate_held(
    pipeline: Pipeline, run: RunResult, uri: str, settings: Settings, now: datetime
) -> Gated:
    """Validate a held run, and write into its result file and `ops/runs` where it failed.

    An error of ours comes back in the result, for the caller to tell; any other is raised, once it
    is written. Safe to repeat. Raises NotPublishable where the result is not one of this pipeline
    as it is now.
    """
    check_publishable(pipeline, run, uri)
    begin, found = time.monotonic(), Validated(())
    failure: Exception | None = None
    try:
        ran = as_it_ran(pipeline, Warehouse.of(pipeline.name, settings))
        found = validate_result(ran, run, settings, now)
        check_none_failed(pipeline.name, run.run_id, found.verdicts)
    except Exception as error:  # noqa: BLE001  whatever it is, the result file says it
        failure = error
    result = end_step(run, uri, settings, "validate", begin, now, failure)
    validation = ValidationResult(
        pipeline=result.pipeline,
        run_id=result.run_id,
        outcome="failed" if result.error else "passed",
        verdicts=found.verdicts,
        data_docs=found.data_docs,
        started_at=now,
        ended_at=result.ended_at,
        error=result.error,
    )
    return Gated(result, validation)


def accept(
    pipeline: Pipeline, run: RunResult, settings: Settings, accepted: CheckOverride, now: datetime
) -> tuple[CheckVerdict, ...]:
    """Record in `ops/quality` that the failed checks of a run are overridden, why and by whom.

    They are those of its last validation: nothing is judged again, so that a check which cannot be
    told does not stand in the way. NotPublishable where none failed.
    """
    quality = Warehouse.of(pipeline.name, settings).quality
    overridden = last_failures(quality, run)
    if not overridden:
        raise NotPublishable(
            f"No check of run {run.run_id} has failed, so there is nothing to accept. Nothing was "
            f"published. Leave --accept away: `tidemark publish {pipeline.name}`."
        )
    record_verdicts(quality, run, now, overridden, accepted=accepted)
    return overridden


def at_once(tell: Callable[[Validated], None]) -> Mapping[str, Step]:
    """What a run without Spark does at once, unless it is held, as `run_without_spark` takes it: it
    validates what it would publish, and publishes it, under its own lease and by the look in which
    it judged what it found.

    `tell` is given the verdicts. The steps raise ChecksFailed where a check keeps it back, and what
    publish raises.
    """

    def validate(run: Run, outcome: Outcome, started: datetime) -> None:
        result = run_result(run, outcome, started, {}, {})
        found = validate_result(run.pipeline, result, run.settings, datetime.now(UTC))
        tell(found)
        check_none_failed(run.pipeline.name, run.run_id, found.verdicts)

    def publish(run: Run, outcome: Outcome, started: datetime) -> None:
        publish_run(run.pipeline, outcome, publish_note(run.run_id, started), run.warehouse)

    return {"validate": validate, "publish": publish}
