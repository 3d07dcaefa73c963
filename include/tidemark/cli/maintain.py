"""`tidemark maintain`: plan, and with `--apply` maintain a pipeline's tables and files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.options import PipelineName, SettingsFile, asked_pipeline
from tidemark.pipeline.instants import manual_run_id


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
    from tidemark.cli.console import print_documents
    from tidemark.cli.maintain_report import maintenance_json, print_plans
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
