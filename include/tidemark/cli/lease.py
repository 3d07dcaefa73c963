"""`tidemark lease`: who works on a pipeline, and how to end a lease that is in the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.console import facts_table, report_console
from tidemark.cli.help import Group
from tidemark.cli.options import PipelineName, SettingsFile, asked_pipeline
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.places import Places
from tidemark.storage.lease.files import time_text
from tidemark.storage.lease.lease import LeaseRecord, read_lease, release_lease, this_process
from tidemark.storage.lease.rules import Holder
from tidemark.storage.lease.taking import decide, living

lease = typer.Typer(
    cls=Group,
    help="The lease of a pipeline: of all that write to it, one works at a time.",
    no_args_is_help=True,
)

_FORCED = (
    "It was taken away, whatever its owner does. If that still works: its commits in flight fail, "
    "and it halts at its next renewal, after a third of its lease. Until then it may write files "
    "into checkpoints, which nothing can fence: start a run when its processes have ended."
)


@lease.command("show")
def show_lease(pipeline: PipelineName, settings: SettingsFile = None) -> None:
    """Show who holds the lease, since when and until when, and what a run from here would do."""
    found, loaded = asked_pipeline(pipeline, settings)
    record = read_lease(Places(loaded.root, found.name).lease, loaded.storage_options)
    if record is None:
        print(f"Nobody has held the lease of {found.name} yet.")
        return
    print(f"{found.name}: lease {record.number}")
    facts = lease_lines(record, this_process("show", "show"), datetime.now(UTC))
    report_console().print(facts_table(facts))


@lease.command()
def release(
    pipeline: PipelineName,
    force: Annotated[
        bool, typer.Option("--force", help="Even where its owner may still work, or unreadable.")
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """Release a lease that its owner left behind, and fence the tables against that owner.

    A run does this by itself; this is for when none is to run, or none can. Refused with 75 while
    the owner's processes live, or may live on another host; no process is ended.
    """
    found, loaded = asked_pipeline(pipeline, settings)
    # delta-rs, which `show` does without.
    from tidemark.runs.pipeline_lease import fence_pipeline
    from tidemark.storage.warehouse import Warehouse

    warehouse = Warehouse.of(found.name, loaded)
    left: list[str] = []

    def fence(number: int) -> Sequence[str]:
        left.extend(fence_pipeline(found, warehouse, number))
        return left

    released = release_lease(
        warehouse.places.lease,
        this_process(manual_run_id(datetime.now(UTC)), "release"),
        warehouse.options,
        on_takeover=fence,
        force=force,
    )
    if released is None or released.took_over is None:
        print(f"The lease of {found.name} is free: there is nothing to release.")
        return
    before = released.took_over
    print(
        f"Lease {before.number} of {found.name} is released (run {before.run_id}, "
        f"{before.purpose}, on {before.host}); its tables are fenced with {released.number}."
    )
    if left:
        print(f"Not fenced: {', '.join(left)}. `tidemark status {found.name}` says why.")
    if force:
        print(_FORCED)


def lease_lines(record: LeaseRecord, reader: Holder, now: datetime) -> dict[str, str]:
    """What there is to say of a lease, by its name for people."""
    alive = living(record, reader.machine)
    verdict = decide(record, reader, now)
    before = record.took_over
    took_over = (
        {
            "taken over from": f"run {before.run_id} ({before.purpose}) on {before.host}, "
            f"lease {before.number}: {before.because}"
        }
        if before
        else {}
    )
    return {
        "last held by" if record.released else "held by": f"run {record.run_id}",
        "for": record.purpose,
        "on": record.host,
        "processes": _processes(record, reader, {mark.pid for mark in alive}),
        "since": time_text(record.taken_at),
        "last renewed": time_text(record.renewed_at),
        "released" if record.released else "until": _end(record),
        **took_over,
        "a run from here would": f"{verdict.act.value}: {verdict.because}",
    }


def _processes(record: LeaseRecord, reader: Holder, alive: set[int]) -> str:
    if record.machine != reader.machine:
        pids = ", ".join(str(mark.pid) for mark in record.processes)
        return f"{pids} (of another machine or container: not to be seen from here)"
    return ", ".join(
        f"{mark.pid} ({'alive' if mark.pid in alive else 'gone'})" for mark in record.processes
    )


def _end(record: LeaseRecord) -> str:
    if not record.released:
        return time_text(record.expires_at)
    return "yes, but the tables are still to be fenced" if record.fence_due else "yes"
