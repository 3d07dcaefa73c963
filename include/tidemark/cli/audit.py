"""`tidemark audit`: is gold what one batch query over bronze gives? By a job of Spark's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.console import print_lines
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_job
from tidemark.cli.options import Master, PipelineName, SettingsFile, check_table, instant
from tidemark.errors import FAILED
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import load_settings

_JOB = "tidemark.streaming.jobs.audit"


def audit(
    pipeline: PipelineName,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="The table. Default: all of the pipeline.")
    ] = None,
    begin: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            parser=instant,
            metavar="TIME",
            show_default=False,
            help="Windows that start here or later. Default: from the first on.",
        ),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option(
            "--to",
            parser=instant,
            metavar="TIME",
            show_default=False,
            help="And before this. Default: up to the last one.",
        ),
    ] = None,
    settings: SettingsFile = None,
    master: Master = "local[*]",
) -> None:
    """Compare gold with the batch aggregate of bronze, both ways.

    Reads only, takes no lease, and may work beside a run. Exits with 0 when gold equals bronze, 1
    when it does not or something must be mended first, 75 when running again can help.
    """
    from tidemark.runs.backfill.audit_result import AuditResult, audit_lines
    from tidemark.runs.has_run import check_has_run

    loaded = load_settings(settings)
    found = find_pipeline(pipeline, loaded)
    check_master(loaded, master, "--master")
    check_table(found, table)
    check_has_run(found, loaded, "audit")
    run_id = manual_run_id(datetime.now(UTC), "audit")
    uri = Places(loaded.root, found.name).result(run_id)
    arguments = ["--pipeline", pipeline, "--run-id", run_id, "--result", uri]
    arguments += ["--settings", str(settings)] if settings else []
    arguments += ["--table", table] if table else []
    arguments += ["--from", begin.isoformat()] if begin else []
    arguments += ["--to", end.isoformat()] if end else []
    outcome = run_job(AuditResult, _JOB, uri, loaded, master, arguments)
    print_lines([*audit_lines(outcome), f"result file: {uri}"])
    if outcome.error:
        raise typer.Exit(failure_exit_code(outcome.error))
    if outcome.outcome == "different":
        raise typer.Exit(FAILED)
