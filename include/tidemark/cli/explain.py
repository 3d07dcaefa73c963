"""`tidemark explain`: the story of one row of gold, its values and the rows that it is made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.job import run_job
from tidemark.cli.options import Master, PipelineName, SettingsFile
from tidemark.errors import FAILED
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.runs.has_run import check_has_run
from tidemark.runs.requests import AuditRequest

if TYPE_CHECKING:
    from tidemark.story.story import CheckedRow, Story


def explain(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="One of its tables.")],
    window: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The window's start, or a time in it: ISO 8601 with a zone, or a date, its "
            "midnight in UTC; of local days, weeks … the day there.",
        ),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=VALUE",
            help="A key of the row, COL:null for null; once for each. Where one lacks, the rows "
            "of the window are listed.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compute the row again from bronze, by Spark, and compare."),
    ] = False,
    master: Master = "local[*]",
    settings: SettingsFile = None,
) -> None:
    """Tell the story of one row of gold: its values, which runs computed them and why, its rows.

    Reads only, takes no lease, and may work beside a run. Exits with 1 when several rows may be
    meant, which are listed then, and with --check when gold is not what bronze gives.
    """
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from dataclasses import replace

    from tidemark.cli.console import print_documents
    from tidemark.cli.explain_report import print_story
    from tidemark.story.asked import key_of
    from tidemark.story.explain import story_of
    from tidemark.story.story import story_document

    loaded = load_settings(settings)
    found = find_pipeline(pipeline, loaded)
    check_master(loaded, master, "--master")
    check_has_run(found, loaded, "explain")
    try:
        story = story_of(found, loaded, table, window, key_of(key or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if check:
        story = replace(story, checked=_checked(story, found, pipeline, loaded, settings, master))
    if json:
        print_documents([story_document(story)])
    else:
        print_story(story)
    if check and not (story.checked and story.checked.equal):
        raise typer.Exit(FAILED)


def _checked(
    story: Story,
    pipeline: Pipeline,
    named: str,
    loaded: Settings,
    settings: Path | None,
    master: str,
) -> CheckedRow:
    """What an audit of the windows that start with the row says of it."""
    from tidemark.recompute.audit_result import AuditResult
    from tidemark.story.checked import checked_by

    run_id = manual_run_id(datetime.now(UTC), AuditRequest.kind)
    request = AuditRequest(
        pipeline=named,
        settings=settings,
        run_id=run_id,
        result=Places(loaded.root, pipeline.name).result(run_id),
        table=story.table,
        start=story.window_start,
        end=story.window_start + timedelta(microseconds=1),
    )
    return checked_by(run_job(AuditResult, request, loaded, master), story)
