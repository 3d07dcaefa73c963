"""`tidemark accept`: let runs go on with rows that somebody changed by hand."""

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
            help="Why; kept in the tables' logs. Without it, only say what was changed.",
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
    """Accept what was changed by hand in a pipeline's tables (DELETE, UPDATE, RESTORE …).

    Runs stop at such commits, since the stream passes over them. Gold stays as it is: audit the
    pipeline afterwards; a backfill mends the windows that are closed. Safe to repeat.
    """
    try:
        given = acceptance(reason is not None, reason, by)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    loaded = load_settings(settings)
    found = find_pipeline(pipeline, loaded)
    # delta-rs, which the other commands do without.
    from tidemark.upkeep.accept_changes import accept_changes, changed_by_hand

    if given is None:
        losses = changed_by_hand(found, loaded)
    else:
        run_id = manual_run_id(datetime.now(UTC), "acceptance")
        losses = accept_changes(found, loaded, run_id, given.reason, given.by)
    for loss in losses:
        for commit in loss.by_hand:
            print(f"{loss.place}: {commit}")
    if not losses:
        print(f"Nothing was changed by hand in the tables of {found.name}.")
    elif given is None:
        print('Nothing was written. Accept it with --reason "…".')
    else:
        print(f"Accepted: {given.reason} ({given.by}). Audit the pipeline (`jobs/audit.py`).")
