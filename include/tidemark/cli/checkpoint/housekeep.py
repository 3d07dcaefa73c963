"""`tidemark checkpoint housekeep`: plan, and with `--apply` remove what may go."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from tidemark.checkpoint.doctor.findings import examples
from tidemark.checkpoint.housekeeping.housekeep import (
    carry_out_housekeeping,
    check_foreign,
    plan_checkpoint,
)
from tidemark.checkpoint.housekeeping.plan import HousekeepingPlan, Share
from tidemark.cli.checkpoint.targets import CheckpointTarget, place_or_pipeline
from tidemark.cli.console import ReportTable, print_documents, report_console, report_table
from tidemark.cli.exit_codes import VERDICTS
from tidemark.errors import SUCCESS
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.kept_batches import ENGINE_DEFAULT
from tidemark.pipeline.settings.settings import Settings


def print_plan(console: Console, name: str, plan: HousekeepingPlan | None, applied: bool) -> None:
    """Print what goes, or went where it is `applied`, and why the rest stays."""
    if plan is None:
        console.print(f"\n{name}: no query has started yet")
        return
    console.print(f"\n{name}: {plan.verdict}")
    if plan.refused is not None:
        console.print(f"refused: {plan.refused}")
        return
    console.print(_table(plan, applied))
    console.print(_sentence(plan, applied))


def plan_as_json(plan: HousekeepingPlan | None, applied: bool) -> dict[str, object]:
    """A plan as JSON holds it; of the names that go, the first ones and their count."""
    if plan is None:
        return {"verdict": "new", "applied": False, "shares": []}
    return {
        "uri": plan.uri,
        "verdict": str(plan.verdict),
        "refused": plan.refused,
        "applied": applied and plan.refused is None,
        "kept_batches": [plan.kept.start, plan.kept.stop - 1] if plan.kept else None,
        "files": plan.files,
        "bytes": plan.size,
        "going_files": plan.going_files,
        "going_bytes": plan.going_size,
        "shares": [_share(share) for share in plan.shares],
    }


def _share(share: Share) -> dict[str, object]:
    first, count = examples(share.going)
    return {
        "kind": str(share.kind),
        "files": share.files,
        "bytes": share.size,
        "going_files": count,
        "going_bytes": share.going_size,
        "going": first,
        "reasons": share.reasons,
    }


def _table(plan: HousekeepingPlan, applied: bool) -> ReportTable:
    gone = ">gone" if applied else ">may go"
    table = report_table("files of", ">files", ">bytes", gone, ">bytes of them", "~why")
    for share in plan.shares:
        numbers = (share.files, share.size, len(share.going), share.going_size)
        reasons = "; ".join(share.reasons)
        table.add_row(str(share.kind), *(f"{number:,}" for number in numbers), reasons)
    return table


def _sentence(plan: HousekeepingPlan, applied: bool) -> str:
    kept = f"{plan.kept.start:,} to {plan.kept.stop - 1:,}" if plan.kept else "none yet"
    did = "removed" if applied else "may go (nothing was changed: --apply removes them)"
    return (
        f"{plan.going_files:,} of {plan.files:,} files, {plan.going_size:,} of {plan.size:,} bytes "
        f"{did}; batches that it can be taken back to: {kept}"
    )


def housekeep_place(
    given: str, apply: bool, keep_batches: int | None, in_json: bool, settings: Path | None
) -> int:
    """Print the plans, carried out with `apply`; the exit code is the largest of those refused."""
    found = place_or_pipeline(given, settings)
    planned: dict[str, HousekeepingPlan | None]
    if isinstance(found, CheckpointTarget):
        planned = {found.name: _of_path(found, apply, keep_batches or ENGINE_DEFAULT)}
    elif keep_batches is not None:
        raise typer.BadParameter(
            f"a pipeline's number stands in its file, as `advanced.keep_batches` of {found[0].name}"
        )
    else:
        planned = _of_pipeline(*found, apply)
    _show(planned, apply, in_json)
    refused = (plan for plan in planned.values() if plan and plan.refused)
    return max((VERDICTS[plan.verdict] for plan in refused), default=SUCCESS)


def _of_path(target: CheckpointTarget, apply: bool, batches: int) -> HousekeepingPlan:
    if apply:
        check_foreign(target.place)
    plan = plan_checkpoint(target.place, batches, datetime.now(UTC))
    if apply:
        carry_out_housekeeping(plan, target.place)
    return plan


def _of_pipeline(
    pipeline: Pipeline, settings: Settings, apply: bool
) -> dict[str, HousekeepingPlan | None]:
    from tidemark.upkeep.pipeline_housekeeping import housekeep_pipeline, plan_pipeline

    now = datetime.now(UTC)
    if apply:
        run_id = manual_run_id(now, "housekeeping")
        kept = housekeep_pipeline(pipeline, settings, run_id, now)
    else:
        kept = plan_pipeline(pipeline, settings, now)
    return {one.checkpoint.name: one.plan for one in kept}


def _show(planned: dict[str, HousekeepingPlan | None], applied: bool, in_json: bool) -> None:
    if in_json:
        print_documents(
            [{"name": name} | plan_as_json(plan, applied) for name, plan in planned.items()]
        )
        return
    console = report_console()
    for name, plan in planned.items():
        print_plan(console, name, plan, applied)
