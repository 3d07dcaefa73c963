"""Validation for the commands that publish."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.runs.results.result import RunResult

if TYPE_CHECKING:
    from tidemark.quality.validate import Validated
    from tidemark.quality.verdicts import ValidationResult


def validated(pipeline: Pipeline, run: RunResult, uri: str, settings: Settings) -> RunResult:
    """The run after its validation, as its result file has it; its `error` says why it may not be
    published. Warnings are told on stderr."""
    from tidemark.quality.gate import validate_held

    gated = validate_held(pipeline, run, uri, settings, datetime.now(UTC))
    tell_verdicts(gated.validation)
    return gated.run


def tell_verdicts(found: ValidationResult | Validated) -> None:
    """Warnings on stderr, and where the Data Docs are."""
    for warning in warnings(found.verdicts):
        print(f"warning: {verdict_line(warning)}", file=sys.stderr)
    if found.data_docs:
        print(f"Data Docs: {found.data_docs}", file=sys.stderr)


def published(pipeline: Pipeline, run: RunResult, uri: str, settings: Settings) -> RunResult:
    """A held run after its validation and, where no check keeps it back, its publish; as its result
    file has it."""
    from tidemark.runs.publish_held import publish_and_record

    run = validated(pipeline, run, uri, settings)
    return run if run.error else publish_and_record(pipeline, run, uri, settings)
