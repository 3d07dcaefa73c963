"""`tidemark rewind`: take a pipeline back to the end of a former run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.console import print_documents, report_console, report_table
from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Apply, Master, asked_pipeline, asks
from tidemark.errors import FAILED
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import NO_REASON_WITHOUT, RewindRequest

if TYPE_CHECKING:
    from tidemark.recompute.rewind.past_runs import PastRun


@asks(RewindRequest, "dry_run")
def rewind(
    request: RewindRequest,
    apply: Apply = False,
    in_json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
    master: Master = "local[*]",
) -> None:
    """Take a pipeline back to the end of a former run; what came since is read again.

    Bronze, rejects, the ingest's checkpoint and gold are as they were then; each table begins a new
    generation, and so do tables of other pipelines that join with it. Without saying where to, the
    possible runs are listed, and with `--apply` a rewind that was begun is finished. Nothing
    changes without `--apply`. Exits with 0 when all went well, 1 when it is
    refused or something must be mended first, 75 when running again can help.
    """
    found, loaded = asked_pipeline(request.pipeline, request.settings)
    if not apply:
        _plan(found, loaded, request, in_json)
        return
    from tidemark.recompute.rewind.result import RewindResult, rewind_lines

    if request.lacks_reason:
        raise typer.BadParameter(NO_REASON_WITHOUT)
    check_master(loaded, master, "--master")
    outcome = run_with_tables(RewindResult, request, found, loaded, master, "rewind")
    end_with(outcome, rewind_lines(outcome), in_json)


def _plan(pipeline: Pipeline, settings: Settings, asked: RewindRequest, in_json: bool) -> None:
    """Without Spark: nothing is computed by a plan."""
    from tidemark.recompute.rewind.plan import planned
    from tidemark.recompute.rewind.result import RewindResult, rewind_lines

    if asked.finishes:
        _list_runs(pipeline, settings, in_json)
        return
    now = datetime.now(UTC)
    plan = planned(pipeline, settings, asked, now)
    result = RewindResult(
        pipeline=pipeline.name,
        run_id=plan.change.run_id,
        dry_run=True,
        outcome="failed" if plan.refused else "succeeded",
        started_at=now,
        ended_at=datetime.now(UTC),
        change=plan.change,
        notes=plan.notes,
        refused=plan.refused,
    )
    end_with(result, rewind_lines(result), in_json)
    if plan.refused:
        raise typer.Exit(FAILED)


def _list_runs(pipeline: Pipeline, settings: Settings, in_json: bool) -> None:
    """The newest first."""
    from tidemark.recompute.rewind.past_runs import past_runs
    from tidemark.runs.unfinished_act import check_no_unfinished_act
    from tidemark.storage.warehouse import Warehouse

    warehouse = Warehouse.of(pipeline.name, settings)
    check_no_unfinished_act(warehouse)
    runs = past_runs(pipeline, warehouse).runs[::-1]
    if in_json:
        print_documents(
            [{"run": one.run, "ended_at": f"{one.ended_at:%Y-%m-%dT%H:%M:%SZ}"} for one in runs]
        )
        return
    print_runs(runs)


def print_runs(runs: Sequence[PastRun]) -> None:
    """Print the runs that a pipeline can go back to."""
    table = report_table("run to go back to", "ended", ">bronze", ">rejects")
    for one in runs:
        ended = f"{one.ended_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(one.run, ended, f"{one.bronze:,}", f"{one.rejects:,}")
    report_console().print(table)
