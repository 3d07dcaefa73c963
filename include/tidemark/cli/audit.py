"""`tidemark audit`: is gold what one batch query over bronze gives? By a job of Spark's."""

from __future__ import annotations

import typer

from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Master, asked_pipeline, asks, check_table
from tidemark.errors import FAILED
from tidemark.pipeline.places import Places
from tidemark.runs.requests import AuditRequest


@asks(AuditRequest)
def audit(request: AuditRequest, master: Master = "local[*]") -> None:
    """Compare gold with the batch aggregate of bronze, both ways.

    Reads only, takes no lease, and may work beside a run. Exits with 0 when gold equals bronze, 1
    when it does not or something must be mended first, 75 when running again can help.
    """
    from tidemark.recompute.audit_result import AuditResult, audit_lines
    from tidemark.runs.has_run import check_has_run

    found, loaded = asked_pipeline(request.pipeline, request.settings, master)
    check_table(found, request.table)
    check_has_run(found, loaded, "audit")
    outcome = run_with_tables(AuditResult, request, found, loaded, master, id_of=request.kind)
    uri = Places(loaded.root, found.name).result(outcome.run_id)
    end_with(outcome, [*audit_lines(outcome), f"result file: {uri}"])
    if outcome.outcome == "different":
        raise typer.Exit(FAILED)
