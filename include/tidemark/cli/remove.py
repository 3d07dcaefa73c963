"""`tidemark remove`: what a pipeline wrote goes, once its file is gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.console import report_console, report_table
from tidemark.cli.options import Apply, SettingsFile
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.settings.settings import load_settings

if TYPE_CHECKING:
    from tidemark.runs.removal import Removal


def remove(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="Its name.")],
    apply: Apply = False,
    settings: SettingsFile = None,
) -> None:
    """Remove all that a pipeline wrote, once its file is removed: tables, checkpoints, its account.

    Without `--apply` it is shown what would go. Refused while its file is there, while something
    works on it, and while other pipelines join with its bronze or read what lies in its folder.
    What it has read stays: landed files, topics, tables of others. There is no way back.
    """
    from tidemark.runs import removal
    from tidemark.runs.acceptance import check_may

    loaded = load_settings(settings)
    plan = removal.plan_removal(pipeline, loaded)
    if apply:
        check_may(loaded, "remove", None)
        plan = removal.remove(plan, loaded, manual_run_id(datetime.now(UTC)))
    print_removal(plan, f"{loaded.root}/{pipeline}", applied=apply)


def print_removal(plan: Removal, folder: str, applied: bool) -> None:
    """Print what goes, or has gone."""
    console = report_console()
    console.print(f"{'Removed' if applied else 'Would be removed'}: {folder}")
    table = report_table("what", ">files", ">bytes")
    for name, (files, size) in plan.parts.items():
        table.add_row(name, f"{files:,}", f"{size:,}")
    console.print(table)
    for other, reader in plan.reads:
        console.print(f"The bronze of {other} keeps nothing for {reader.name} any more.")
    if not applied:
        console.print(f"Nothing was removed. To do it: tidemark remove {plan.pipeline} --apply")
