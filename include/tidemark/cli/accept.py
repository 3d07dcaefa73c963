"""`tidemark accept`: let runs go on with rows that somebody changed by hand, or with a change of
the pipeline's file that loses something."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.options import PipelineName, SettingsFile
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.settings.settings import load_settings
from tidemark.quality.acceptance import acceptance


def accept(
    pipeline: PipelineName,
    reason: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            show_default=False,
            help="Why; kept in the tables' logs and in the contract of the file. Without it, only "
            "say what was changed.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default="USER@HOST", help="Who accepts; kept with the reason."
        ),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Accept what runs of a pipeline stop at, and would go on with once somebody says why.

    That is what was changed by hand in its tables (DELETE, UPDATE, RESTORE …), since the stream
    passes over it: gold stays as it is, so audit the pipeline afterwards; a backfill mends the
    windows that are closed. And it is a change of its file that drops rows of bronze or gives a
    derived column a second meaning: the next run takes it. Safe to repeat.
    """
    try:
        given = acceptance(reason is not None, reason, by)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    loaded = load_settings(settings)
    found = find_pipeline(pipeline, loaded)
    # delta-rs, which the other commands do without.
    from tidemark.runs.contract.accept import changes_to_accept
    from tidemark.upkeep.accept_changes import accept_changes, changed_by_hand

    if given is None:
        losses, of_file = changed_by_hand(found, loaded), changes_to_accept(found, loaded)
    else:
        run_id = manual_run_id(datetime.now(UTC), "acceptance")
        losses, of_file = accept_changes(found, loaded, run_id, given.reason, given.by)
    for loss in losses:
        for commit in loss.by_hand:
            print(f"{loss.place}: {commit}")
    for change in of_file:
        print(change)
    if not losses and not of_file:
        print(
            f"Nothing was changed by hand in the tables of {found.name}, and no change of its "
            "file waits to be accepted."
        )
    elif given is None:
        print('Nothing was written. Accept it with --reason "…".')
    else:
        print(f"Accepted: {given.reason} ({given.by}).")
        if losses:
            print("Audit the pipeline (`jobs/audit.py`).")
        if of_file:
            print(f"The next run (`tidemark run {found.name}`) takes the change.")
