"""`tidemark maintain`: plan, and with `--apply` maintain a pipeline's tables and files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.console import ReportTable, print_documents, report_console, report_table
from tidemark.cli.options import PipelineName, SettingsFile, asked_pipeline
from tidemark.pipeline.instants import manual_run_id

if TYPE_CHECKING:
    from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part


def maintain(
    pipeline: PipelineName,
    apply: Annotated[bool, typer.Option("--apply", help="Do what the plan says.")] = False,
    in_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Show what maintenance would do to a pipeline's tables and files, and with --apply do it.

    It packs small files, and removes data files, log entries, rows of ops/ and result files that
    are older than the settings keep them, and that no reader needs. Exits with 1 where a table was
    left as it is because a reader is too far behind, with 75 where a run holds the lease.
    """
    found, loaded = asked_pipeline(pipeline, settings)
    from tidemark.upkeep.maintenance.maintain import (
        check_no_maintenance_refused,
        maintain_pipeline,
        plan_maintenance,
    )

    now = datetime.now(UTC)
    if apply:
        plans = maintain_pipeline(found, loaded, manual_run_id(now, "maintenance"), now)
    else:
        plans = plan_maintenance(found, loaded, now)
    if in_json:
        print_documents([maintenance_json(plan, apply) for plan in plans])
    else:
        print_plans(plans, apply)
    check_no_maintenance_refused(found.name, plans)


def print_plans(plans: Sequence[MaintenancePlan], applied: bool) -> None:
    """A row for each kind of work that is due, and a sentence for all of it."""
    console = report_console()
    due = [(plan, part) for plan in plans for part in plan.parts if part.going]
    if due:
        console.print(_table(due, applied))
    for plan in plans:
        if plan.refused:
            console.print(f"{plan.name} is left as it is: {plan.refused}")
    console.print(_sentence(plans, applied))


def maintenance_json(plan: MaintenancePlan, applied: bool) -> dict[str, object]:
    """All parts of a plan, those without anything to do as well."""
    return {
        "name": plan.name,
        "uri": plan.uri,
        "refused": plan.refused,
        "advice": plan.advice,
        "applied": applied and plan.refused is None,
        "checkpoint": plan.checkpoint,
        "parts": [
            {
                "work": str(part.work),
                "number": part.number,
                "bytes": part.size,
                "going": part.going,
                "going_bytes": part.going_size,
                "reason": part.reason,
            }
            for part in plan.parts
        ],
    }


def _table(due: Sequence[tuple[MaintenancePlan, Part]], applied: bool) -> ReportTable:
    done = ">done" if applied else ">due"
    table = report_table("of", "work", ">there", ">bytes", done, ">bytes of them", "~which")
    for plan, part in due:
        numbers = (part.number, part.size, part.going, part.going_size)
        cells = ("" if number is None else f"{number:,}" for number in numbers)
        table.add_row(plan.name, str(part.work), *cells, part.reason)
    return table


def _sentence(plans: Sequence[MaintenancePlan], applied: bool) -> str:
    from tidemark.upkeep.maintenance.plan import Work

    packed, files, size, rows = 0, 0, 0, 0
    for part in (part for plan in plans for part in plan.parts):
        if part.work is Work.COMPACTION:
            packed += part.going
        elif part.work is Work.OLD_ROWS:
            rows += part.going
        else:
            files += part.going
            size += part.going_size or 0
    checkpoints = sum(plan.checkpoint for plan in plans)
    did = "done" if applied else "due (nothing was changed: --apply does it)"
    return (
        f"{packed:,} small files to pack, {files:,} files with {size:,} bytes and {rows:,} rows to "
        f"remove, {checkpoints:,} log checkpoints to write: {did}"
    )
