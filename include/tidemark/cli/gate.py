"""Validation for the commands that publish."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.runs.results.result import RunResult

if TYPE_CHECKING:
    from tidemark.quality.validate import Validated
    from tidemark.quality.verdicts import ValidationResult
    from tidemark.runs.run import Outcome, Run
    from tidemark.runs.without_spark import Step


def validated(pipeline: Pipeline, run: RunResult, uri: str, settings: Settings) -> RunResult:
    """The run after its validation, as its result file has it; its `error` says why it may not be
    published. Warnings are told on stderr."""
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from tidemark.quality.gate import validate_held

    gated = validate_held(pipeline, run, uri, settings, datetime.now(UTC))
    _tell(gated.validation)
    return gated.run


def _tell(found: ValidationResult | Validated) -> None:
    for warning in warnings(found.verdicts):
        print(f"warning: {verdict_line(warning)}", file=sys.stderr)
    if found.data_docs:
        print(f"Data Docs: {found.data_docs}", file=sys.stderr)


def _validate(run: Run, outcome: Outcome, started: datetime) -> None:
    from tidemark.quality.validate import check_none_failed, validate_result
    from tidemark.runs.run import run_result

    result = run_result(run, outcome, started, {}, {})
    _tell(found := validate_result(run.pipeline, result, run.settings, datetime.now(UTC)))
    check_none_failed(run.pipeline.name, run.run_id, found.verdicts)


def _publish(run: Run, outcome: Outcome, started: datetime) -> None:
    from tidemark.gold.published import publish_note
    from tidemark.runs.publish_held import publish_run

    publish_run(run.pipeline, outcome, publish_note(run.run_id, started), run.warehouse)


# What a run without Spark does at once, unless it is held: it validates what it would publish, and
# publishes it, under its own lease and by the look in which it judged what it found. Warnings are
# told on stderr. Raises ChecksFailed where a check keeps it back, and what publish raises.
AT_ONCE: Mapping[str, Step] = {"validate": _validate, "publish": _publish}


def published(pipeline: Pipeline, run: RunResult, uri: str, settings: Settings) -> RunResult:
    """A held run after its validation and, where no check keeps it back, its publish; as its result
    file has it."""
    from tidemark.runs.publish_held import publish_and_record

    run = validated(pipeline, run, uri, settings)
    return run if run.error else publish_and_record(pipeline, run, uri, settings)
