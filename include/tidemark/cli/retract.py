"""`tidemark retract`: rows that were a mistake are taken out of bronze, by a job of Spark's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.console import print_documents, print_lines
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_job
from tidemark.cli.options import Master, asks
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.requests import NO_REASON, RetractRequest


@asks(RetractRequest, "dry_run")
def retract(
    request: RetractRequest,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without, only say what.")] = False,
    in_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
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
    # delta-rs, which the other commands do without.
    from tidemark.recompute.retract.result import RetractResult, retract_lines
    from tidemark.runs.pipeline_lease import check_lease

    loaded = load_settings(request.settings)
    found = find_pipeline(request.pipeline, loaded)
    if request.finishes and not apply:
        raise typer.BadParameter("name rows: --where, --file, --run or --undo")
    if apply and not request.finishes and not (request.reason or "").strip():
        raise typer.BadParameter(NO_REASON)
    check_master(loaded, master, "--master")
    run_id = manual_run_id(datetime.now(UTC))
    if apply:
        check_lease(found, loaded, run_id, "retract")
    uri = Places(loaded.root, found.name).result(run_id)
    request = request.model_copy(update={"run_id": run_id, "result": uri, "dry_run": not apply})
    outcome = run_job(RetractResult, request, loaded, master)
    if in_json:
        print_documents([outcome.model_dump(mode="json", by_alias=True)])
    else:
        print_lines(retract_lines(outcome))
    if outcome.error:
        raise typer.Exit(failure_exit_code(outcome.error))
