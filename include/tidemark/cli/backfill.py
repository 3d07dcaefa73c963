"""`tidemark backfill`: closed windows of a range, computed again by a job of Spark's."""

from __future__ import annotations

from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Master, asked_pipeline, asks, check_table
from tidemark.runs.requests import BackfillRequest


@asks(BackfillRequest)
def backfill(request: BackfillRequest, master: Master = "local[*]") -> None:
    """Compute the closed windows of a range again from bronze, and publish what differs.

    Exits with 0 when all went well, 1 when something must be mended first, 75 when running again
    can help: gold is then as it was.
    """
    from tidemark.recompute.backfill_result import BackfillResult, backfill_lines
    from tidemark.runs.has_run import check_has_run

    found, loaded = asked_pipeline(request.pipeline, request.settings, master)
    check_table(found, request.table)
    check_has_run(found, loaded, "compute again")
    lease = None if request.dry_run else "backfill"
    outcome = run_with_tables(BackfillResult, request, found, loaded, master, lease, request.kind)
    end_with(outcome, backfill_lines(outcome))
