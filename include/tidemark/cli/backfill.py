"""`tidemark backfill`: closed windows of a range, computed again by a job of Spark's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.console import print_lines
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_job
from tidemark.cli.options import Master, PipelineName, SettingsFile, check_table, instant
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import load_settings

_JOB = "tidemark.streaming.jobs.backfill"


def backfill(
    pipeline: PipelineName,
    table: Annotated[str, typer.Option(metavar="NAME", help="The table of the pipeline.")],
    begin: Annotated[
        datetime,
        typer.Option(
            "--from", parser=instant, metavar="TIME", help="Windows that start here or later."
        ),
    ],
    end: Annotated[
        datetime, typer.Option("--to", parser=instant, metavar="TIME", help="And before this.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; write nothing.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish in spite of checks that fail.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; kept in ops/quality.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who accepts. Default: this user.")
    ] = None,
    settings: SettingsFile = None,
    master: Master = "local[*]",
) -> None:
    """Compute the closed windows of a range again from bronze, and publish what differs.

    Exits with 0 when all went well, 1 when something must be mended first, 75 when running again
    can help: gold is then as it was.
    """
    from tidemark.runs.backfill.backfill_result import BackfillResult, backfill_lines
    from tidemark.runs.has_run import check_has_run
    from tidemark.runs.pipeline_lease import check_lease

    loaded = load_settings(settings)
    found = find_pipeline(pipeline, loaded)
    check_master(loaded, master, "--master")
    check_table(found, table)
    if accept != bool(reason):
        raise typer.BadParameter("--accept and --reason go together")
    check_has_run(found, loaded, "compute again")
    run_id = manual_run_id(datetime.now(UTC), "backfill")
    if not dry_run:
        check_lease(found, loaded, run_id, "backfill")
    uri = Places(loaded.root, found.name).result(run_id)
    arguments = ["--pipeline", pipeline, "--table", table, "--run-id", run_id, "--result", uri]
    arguments += ["--settings", str(settings)] if settings else []
    arguments += ["--from", begin.isoformat(), "--to", end.isoformat()]
    arguments += ["--dry-run"] * dry_run
    if accept and reason:
        arguments += ["--accept", "--reason", reason, *(["--by", by] if by else [])]
    outcome = run_job(BackfillResult, _JOB, uri, loaded, master, arguments)
    if outcome.error:
        raise typer.Exit(failure_exit_code(outcome.error))
    print_lines(backfill_lines(outcome))
