"""`tidemark accept`: let runs go on with rows that somebody changed by hand, without input that is
gone, with a clock that is apart, or with a change of the pipeline's file that loses something."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.options import PipelineName, SettingsFile, asked_acceptance, kept_text
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline


def accept(
    pipeline: PipelineName,
    reason: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            show_default=False,
            parser=kept_text,
            help="Why; kept in the tables' logs and in the contract of the file. Without it, only "
            "say what was changed.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="USER@HOST",
            parser=kept_text,
            help="Who accepts; kept with the reason.",
        ),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Accept what runs of a pipeline stop at, and would go on with once somebody says why.

    That is what was changed by hand in its tables (DELETE, UPDATE, RESTORE …), since the stream
    passes over it: gold stays as it is, so audit the pipeline afterwards; a backfill mends the
    windows that are closed. It is input that is gone before it was read (messages that expired, a
    topic or a table that was made anew): the next run tells it in rejects. It is a root that was
    moved or copied: files that were read are known by their path below the root then. It is a clock
    of this machine that is earlier than the last batch was planned, or is not the store's, and is
    right all the same. And it is a change of the file that drops rows of bronze or gives a derived
    column a second meaning: the next run takes it. Safe to repeat.
    """
    given, loaded = asked_acceptance(reason is not None, reason, by, settings)
    found = find_pipeline(pipeline, loaded)
    from tidemark.runs.contract.accept import changes_to_accept
    from tidemark.runs.unfinished_act import unfinished_act
    from tidemark.runs.wall_clock import clock_faults
    from tidemark.storage.lease.held import Clocks
    from tidemark.storage.warehouse import Warehouse
    from tidemark.upkeep.accept_changes import (
        Accepted,
        accept_changes,
        changed_by_hand,
        lost_input,
    )

    if given is None:
        now, warehouse = datetime.now(UTC), Warehouse.of(found.name, loaded)
        # In the middle of an act only input and the clock are accepted.
        is_amid = unfinished_act(warehouse) is not None
        losses = () if is_amid else changed_by_hand(found, loaded)
        lost = lost_input(found, loaded)
        # The store's clock is known under the lease only.
        clock = clock_faults(ingest_checkpoint(warehouse), Clocks(now, now))
        of_file = () if is_amid else tuple(changes_to_accept(found, loaded))
        accepted = Accepted(losses, lost, of_file, clock)
    else:
        run_id = manual_run_id(datetime.now(UTC), "acceptance")
        accepted = accept_changes(found, loaded, run_id, given.reason, given.by)
    for loss in accepted.by_hand:
        for commit in loss.by_hand:
            print(f"{loss.place}: {commit}")
    for one in accepted.lost:
        print(f"{found.source.label}: {one.detail}")
    for change in accepted.of_file:
        print(change)
    for fault in accepted.clock:
        print(fault)
    if not (accepted.by_hand or accepted.lost or accepted.of_file or accepted.clock):
        print(
            f"Nothing was changed by hand in the tables of {found.name}, nothing of its source is "
            "lost, no clock is apart, and no change of its file waits to be accepted."
        )
    elif given is None:
        print('Nothing was written. Accept it with --reason "…".')
    else:
        print(f"Accepted: {given.reason} ({given.by}).")
        if accepted.by_hand:
            print("Audit the pipeline (`tidemark audit`).")
        if any(not one.is_kept for one in accepted.lost):
            print(f"The next run (`tidemark run {found.name}`) tells it in rejects, and goes on.")
        if accepted.clock:
            print("Runs go on with this machine's clock, as far as it is apart now.")
        if accepted.of_file:
            print(f"The next run (`tidemark run {found.name}`) takes the change.")
