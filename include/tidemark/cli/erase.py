"""`tidemark erase`: rows go for good, with all that held them, by a job of Spark's."""

from __future__ import annotations

import typer

from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Apply, Master, ResultInJson, asked_pipeline, asks
from tidemark.pipeline.settings.masters import check_master
from tidemark.runs.requests import NO_REASON_TO_ERASE, EraseRequest


@asks(EraseRequest, "dry_run")
def erase(
    request: EraseRequest,
    apply: Apply = False,
    in_json: ResultInJson = False,
    master: Master = "local[*]",
) -> None:
    """Erase rows for good, as of a person: from bronze, rejects, gold, and all that held them.

    Each table begins a new generation without them; former generations, old files, logs, results
    and plans go. There is no way back behind it. What lies elsewhere is told and not touched: the
    source, above all. Without `--apply` it is computed and shown what goes, and nothing is written;
    with `--apply` alone an erasure that was begun is finished. Exits with 0 when all went well, 1
    when it is refused or something must be mended first, 75 when running again can help.
    """
    # delta-rs, which the other commands do without.
    from tidemark.recompute.erase.result import EraseResult, erase_lines

    found, loaded = asked_pipeline(request.pipeline, request.settings)
    if request.finishes and not apply:
        raise typer.BadParameter("name rows: --where")
    if apply and not request.finishes and not (request.reason or "").strip():
        raise typer.BadParameter(NO_REASON_TO_ERASE)
    check_master(loaded, master, "--master")
    lease = "erase" if apply else None
    outcome = run_with_tables(EraseResult, request, found, loaded, master, lease, dry_run=not apply)
    end_with(outcome, erase_lines(outcome), in_json)
