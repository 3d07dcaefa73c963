"""The lease of a pipeline, as its writers take it: with its tables fenced after a takeover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tidemark.errors import LeaseLeft, LeaseLost
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.losses import find_losses
from tidemark.runs.unfinished_act import ActKind, check_no_unfinished_act
from tidemark.runs.wall_clock import check_clock
from tidemark.storage.delta.fence import fence_tables, pipeline_tables
from tidemark.storage.lease.halt import halt
from tidemark.storage.lease.lease import Lease, hold_lease, this_process
from tidemark.storage.root import check_root
from tidemark.storage.warehouse import Warehouse

OnLapse = Callable[[LeaseLost], object]


@contextmanager
def pipeline_lease(
    pipeline: Pipeline,
    settings: Settings,
    run_id: str,
    purpose: str,
    on_lapse: OnLapse = halt,
    ends_processes: bool = True,
    finishes: ActKind | None = None,
    any_clock: bool = False,
) -> Iterator[Lease]:
    """Hold the pipeline's lease for a writer, which may take it over by the rules; one that is not
    to end processes only where those of the holder are gone.

    Raises RootMissing, LeaseHeld where another run works, what `check_no_unfinished_act` raises
    where an act left the tables in the middle, unless the writer `finishes` acts of its kind, and
    ClockWrong unless it takes `any_clock`.
    `on_lapse` is called when the lease is lost: a job ends itself (`halt`), for it must not go on.
    """
    check_root(settings)
    warehouse = Warehouse.of(pipeline.name, settings)
    with hold_lease(
        warehouse.places.lease,
        this_process(run_id, purpose),
        settings.storage_options,
        settings.lease_seconds,
        on_takeover=lambda number: fence_pipeline(pipeline, warehouse, number),
        on_lapse=on_lapse,
        ends_processes=ends_processes,
    ) as lease:
        check_no_unfinished_act(warehouse, unless=finishes)
        if not any_clock:
            check_clock(pipeline.name, ingest_checkpoint(warehouse), lease.clocks())
        yield lease


def check_lease(pipeline: Pipeline, settings: Settings, run_id: str, purpose: str) -> None:
    """Take the lease in order, and give it back: whoever starts a job that takes it first hears
    before a JVM starts that another works (LeaseHeld), or that the root is not there, or cannot be
    written. A lease that was left, or is of an earlier try of this job, is for the job to take."""
    check_root(settings)
    place, holder = Places(settings.root, pipeline.name).lease, this_process(run_id, purpose)
    with (
        suppress(LeaseLeft),
        hold_lease(place, holder, settings.storage_options, settings.lease_seconds),
    ):
        pass


def fence_pipeline(pipeline: Pipeline, warehouse: Warehouse, number: int) -> Sequence[str]:
    """Fence the pipeline's tables with a lease's number; the places of those that are left.

    Left is a table that is behind what rests on it: a fence is a commit, and with one more the
    table could be at the version at which it was published, without the rows of then. Nothing is
    written to such a table until it is restored, and then a fence is still due.
    """
    lost = {loss.place for loss in find_losses(pipeline, warehouse) if not loss.by_hand}
    tables = pipeline_tables(pipeline, warehouse)
    fence_tables((one for one in tables if one.uri not in lost), number)
    return [one.uri for one in tables if one.uri in lost]
