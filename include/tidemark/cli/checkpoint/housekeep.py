"""`tidemark checkpoint housekeep`: plan, and with `--apply` remove what may go."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import typer

from tidemark.checkpoint.housekeeping.housekeep import (
    carry_out_housekeeping,
    check_foreign,
    plan_checkpoint,
)
from tidemark.checkpoint.housekeeping.plan import HousekeepingPlan
from tidemark.cli.checkpoint.housekeep_report import plan_as_json, print_plan
from tidemark.cli.checkpoint.targets import CheckpointTarget, place_or_pipeline
from tidemark.cli.console import print_documents, report_console
from tidemark.cli.exit_codes import VERDICTS
from tidemark.errors import SUCCESS
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.kept_batches import ENGINE_DEFAULT
from tidemark.pipeline.settings.settings import Settings


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
    # delta-rs, Arrow and DuckDB, which a path does without.
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
