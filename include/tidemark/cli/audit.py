"""`tidemark audit`: is gold what one batch query over bronze gives? By a job of Spark's."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Master, asked_pipeline, asks, check_table
from tidemark.errors import FAILED
from tidemark.pipeline.instants import manual_run_id
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
    run_id = manual_run_id(datetime.now(UTC), request.kind)
    outcome = run_with_tables(AuditResult, request, found, loaded, master, run_id)
    uri = Places(loaded.root, found.name).result(run_id)
    end_with(outcome, [*audit_lines(outcome), f"result file: {uri}"])
    if outcome.outcome == "different":
        raise typer.Exit(FAILED)
