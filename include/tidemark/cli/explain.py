"""`tidemark explain`: the story of one row of gold, its values and the rows that it is made of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.job import run_with_tables
from tidemark.cli.options import Master, PipelineName, SettingsFile, asked_pipeline
from tidemark.errors import FAILED
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.has_run import check_has_run
from tidemark.runs.requests import AuditRequest

if TYPE_CHECKING:
    from tidemark.recompute.audit_result import AuditResult
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
    from dataclasses import replace

    from tidemark.cli.console import print_documents
    from tidemark.cli.explain_report import print_story
    from tidemark.recompute.audit_result import AuditResult
    from tidemark.story.asked import NoRowNamed, key_of
    from tidemark.story.explain import story_of
    from tidemark.story.story import story_document

    found, loaded = asked_pipeline(pipeline, settings, master)
    check_has_run(found, loaded, "explain")
    try:
        story = story_of(found, loaded, table, window, key_of(key or ()))
    except NoRowNamed as error:
        raise typer.BadParameter(str(error)) from error
    if check:
        request = AuditRequest(
            pipeline=pipeline,
            settings=settings,
            table=table,
            start=story.window_start,
            end=story.window_start + timedelta(microseconds=1),
        )
        audit = run_with_tables(AuditResult, request, found, loaded, master, id_of=request.kind)
        story = replace(story, checked=checked_by(audit, story))
    if json:
        print_documents([story_document(story)])
    else:
        print_story(story)
    if check and not (story.checked and story.checked.equal):
        raise typer.Exit(FAILED)


def checked_by(audit: AuditResult, story: Story) -> CheckedRow:
    """What an audit says of a row; it tells a few of the windows that differ."""
    from tidemark.recompute.differences import DIFFERING, EXAMPLES, plain
    from tidemark.story.story import CheckedRow

    if audit.error is not None:
        return CheckedRow(None, f"The audit failed: {audit.error.message}")
    of = audit.tables[story.table]
    found, end = of.found, story.window_end
    is_left_out = of.closed_only and (end is None or epoch_ms(end) > of.close_ms)
    if is_left_out or (not found.gold_windows and not found.bronze_windows):
        why = "it is open, or older than `keep`, or neither gold nor bronze has it"
        return CheckedRow(None, f"The row was not compared: {why}.")
    if not found.windows:
        rows = found.gold_windows
        return CheckedRow(True, f"Gold equals bronze in all {rows:,} rows that start when it does.")
    for example in (one for kind in DIFFERING for one in found.examples.get(kind, ())):
        if plain(example.keys) == plain(story.key):
            gold, bronze = (
                "nothing" if of is None else ", ".join(f"{n}={plain(v)}" for n, v in of.items())
                for of in (example.gold, example.bronze)
            )
            advice = "`tidemark backfill` brings what bronze gives."
            return CheckedRow(False, f"Gold has {gold}; bronze gives {bronze}. {advice}")
    if all(getattr(found, kind) <= EXAMPLES for kind in DIFFERING):
        return CheckedRow(True, f"Gold equals bronze here; {found.windows:,} others differ.")
    return CheckedRow(
        None,
        f"{found.windows:,} rows that start when it does differ, more than an audit tells one by "
        "one: whether this is among them is not known.",
    )
