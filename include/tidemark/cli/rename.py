"""`tidemark rename`: a pipeline whose file has another name goes on under that."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.console import report_console
from tidemark.cli.options import Apply, SettingsFile, kept_text
from tidemark.pipeline.settings.settings import load_settings

if TYPE_CHECKING:
    from tidemark.upkeep.renaming import Renaming


def rename(
    former: Annotated[str, typer.Argument(metavar="FORMER", help="The name that it had.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that its file has now.")],
    apply: Apply = False,
    reason: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", show_default=False, parser=kept_text, help="Why; kept in ops/upkeep."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="USER@HOST",
            parser=kept_text,
            help="Who does it; kept in ops/upkeep.",
        ),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Let a pipeline go on under the name that its file has now, with all that it wrote.

    Rename the file first. Without `--apply` it is said what would be done. Its folder, its rows in
    `ops`, its contracts and the notes beside the bronze of others get the new name. Refused while
    something works on it, while other pipelines read it, and where it would not be exact; killed in
    the middle, the same command does the rest.
    """
    # delta-rs, which the other commands do without.
    from tidemark.runs.acceptance import check_may, this_user
    from tidemark.upkeep import renaming

    loaded = load_settings(settings)
    plan = renaming.plan_rename(former, name, loaded)
    if apply:
        check_may(loaded, "rename", by)
        renaming.rename(plan, loaded, datetime.now(UTC), by or this_user(), reason)
    print_renaming(plan, loaded.root, applied=apply)


def print_renaming(plan: Renaming, root: str, applied: bool) -> None:
    """Print what gets the new name, or has got it."""
    console, name = report_console(), plan.pipeline.name
    done = "Renamed" if applied else "Would be renamed"
    rest = ", which was begun: the rest" if plan.act is not None else ""
    console.print(f"{done}: {root}/{plan.former} to {root}/{name}{rest}")
    console.print(f"{plan.files:,} files, {plan.size:,} bytes; rows of ops and contracts with it.")
    for other, reader in plan.reads:
        console.print(f"The bronze of {other} is kept for {reader.table} of {name} from then on.")
    if not applied:
        console.print(
            f"Nothing was changed. To do it: tidemark rename {plan.former} {name} --apply"
        )
