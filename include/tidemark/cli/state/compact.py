"""`tidemark state compact`: what is due, and with `--apply` the job that compacts it."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.checkpoint.state.plan_compaction import CompactionPlan
from tidemark.cli.console import (
    ReportTable,
    print_documents,
    print_lines,
    report_console,
    report_table,
)
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_with_tables
from tidemark.cli.options import asked_pipeline
from tidemark.errors import SUCCESS
from tidemark.runs.requests import CompactionRequest
from tidemark.runs.results.compaction_result import CompactionResult, compaction_lines
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_compaction import (
    Planned,
    check_no_compaction_refused,
    plan_compactions,
)


def compact_pipeline(request: CompactionRequest, apply: bool, in_json: bool, master: str) -> int:
    """Print the plans; with `apply`, have them carried out and print the result. The exit code."""
    pipeline, settings = asked_pipeline(request.pipeline, request.settings, master)
    now = datetime.now(UTC)
    warehouse = Warehouse.of(pipeline.name, settings)
    planned = plan_compactions(pipeline, warehouse, now, request.every)
    if not apply or not any(one.plan and one.plan.stores for one in planned):
        _show(planned, in_json)
        check_no_compaction_refused(pipeline.name, planned)
        return SUCCESS
    result = run_with_tables(
        CompactionResult, request, pipeline, settings, master, "compaction", request.kind
    )
    if in_json:
        print(result.model_dump_json(by_alias=True, indent=2))
    else:
        print_lines(compaction_lines(result))
    return failure_exit_code(result.error) if result.error else SUCCESS


def _show(planned: tuple[Planned, ...], in_json: bool) -> None:
    if in_json:
        print_documents([{"name": one.checkpoint.name} | _as_json(one.plan) for one in planned])
        return
    console = report_console()
    console.print(plans_table(planned))
    stores = sum(len(one.plan.stores) for one in planned if one.plan)
    due = f"{stores:,} snapshots would be written (nothing was changed: --apply writes them)"
    console.print(due if stores else "nothing to compact")


def plans_table(planned: tuple[Planned, ...]) -> ReportTable:
    """A row for each query, with what its next start replays."""
    counts = (">longest\nchain", ">changes\nreplayed", ">their\nbytes", ">snapshots\nto write")
    table = report_table("query", "state", *counts, "~why")
    for one in planned:
        plan = one.plan
        if plan is None:
            table.add_row(one.checkpoint.name, "no query has started yet")
            continue
        changes = plan.state.replayed
        numbers = (plan.state.longest, changes.files, changes.size, len(plan.stores))
        reason = f"refused: {plan.refused}" if plan.refused else plan.state.reason
        cells = (f"{number:,}" for number in numbers)
        table.add_row(one.checkpoint.name, str(plan.state.verdict), *cells, reason)
    return table


def _as_json(plan: CompactionPlan | None) -> dict[str, object]:
    if plan is None:
        return {"verdict": None, "snapshots": 0}
    return {
        "uri": plan.uri,
        "verdict": str(plan.state.verdict),
        "reason": plan.state.reason,
        "refused": plan.refused,
        "batch": plan.batch,
        "longest": plan.state.longest,
        "changes": plan.state.replayed.files,
        "change_bytes": plan.state.replayed.size,
        "snapshots": len(plan.stores),
    }
