"""Validation for the commands that publish: in this process, or in a job where rows are many."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tidemark.cli.job import run_job
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.verdicts import ValidationResult, verdict_line, warnings
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result

_JOB = "tidemark.streaming.jobs.validate"


def validated(
    pipeline: Pipeline,
    named: str,
    run: RunResult,
    uri: str,
    settings: Settings,
    settings_file: Path | None,
    master: str,
) -> RunResult:
    """The run after its validation, as its result file has it; its `error` says why it may not be
    published. Warnings are told on stderr.

    `named` is the pipeline as the command line named it, its name or file.
    """
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from tidemark.quality.gate import validate_held
    from tidemark.quality.validate import ManyRows

    gated = validate_held(pipeline, run, uri, settings, datetime.now(UTC))
    if isinstance(gated, ManyRows):
        check_master(settings, master, "--master")
        print(f"{pipeline.name}: Spark is started: {gated}", file=sys.stderr)
        asked = ["--pipeline", named, "--held", uri]
        asked += ["--settings", str(settings_file)] if settings_file else []
        validation = _by_job(pipeline.name, run.run_id, asked, settings, master)
        after = read_result(RunResult, uri, settings.storage_options)
        after = after.model_copy(update={"error": validation.error})
    else:
        validation, after = gated.validation, gated.run
    for warning in warnings(validation.verdicts):
        print(f"warning: {verdict_line(warning)}", file=sys.stderr)
    if validation.data_docs:
        print(f"Data Docs: {validation.data_docs}", file=sys.stderr)
    return after


def _by_job(
    pipeline: str, run_id: str, asked: Sequence[str], settings: Settings, master: str
) -> ValidationResult:
    """Submit the job with these arguments; what it wrote."""
    result_id = f"validate__{run_id}"
    target = Places(settings.root, pipeline).result(result_id)
    arguments = [*asked, "--run-id", result_id, "--result", target]
    return run_job(ValidationResult, _JOB, target, settings, master, arguments)
