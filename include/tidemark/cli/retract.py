"""`tidemark retract`: rows that were a mistake are taken out of bronze, by a job of Spark's."""

from __future__ import annotations

import typer

from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Apply, Master, ResultInJson, asked_pipeline, asks
from tidemark.pipeline.settings.masters import check_master
from tidemark.runs.requests import NO_REASON, RetractRequest


@asks(RetractRequest, "dry_run")
def retract(
    request: RetractRequest,
    apply: Apply = False,
    in_json: ResultInJson = False,
    master: Master = "local[*]",
) -> None:
    """Take rows out of bronze that were a mistake; gold is as if they had never come.

    They go to the table `retracted`, with who did it and why, and can be brought back: `--undo`.
    Each table begins a new generation without them. A bronze that tables of other pipelines join
    with is refused. Without `--apply` it is computed and shown what changes, and nothing is
    written; with `--apply` alone a retraction that was begun is finished. Exits with 0 when all
    went well, 1 when it is refused or something must be mended first, 75 when running again can
    help.
    """
    from tidemark.recompute.retract.result import RetractResult, retract_lines

    found, loaded = asked_pipeline(request.pipeline, request.settings)
    if request.finishes and not apply:
        raise typer.BadParameter("name rows: --where, --file, --run or --undo")
    if apply and not request.finishes and not (request.reason or "").strip():
        raise typer.BadParameter(NO_REASON)
    check_master(loaded, master, "--master")
    lease = "retract" if apply else None
    outcome = run_with_tables(
        RetractResult, request, found, loaded, master, lease, dry_run=not apply
    )
    end_with(outcome, retract_lines(outcome), in_json)
