"""The lease of a pipeline, as its writers take it: with its tables fenced after a takeover."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tidemark.errors import LeaseLost
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.fence import fence_tables, pipeline_tables
from tidemark.storage.lease.halt import halt
from tidemark.storage.lease.lease import Lease, hold_lease, this_process
from tidemark.storage.warehouse import Warehouse

OnLapse = Callable[[LeaseLost], object]


def pipeline_lease(
    pipeline: Pipeline,
    settings: Settings,
    run_id: str,
    purpose: str,
    on_lapse: OnLapse = halt,
    repairs: bool = False,
) -> AbstractContextManager[Lease]:
    """Hold the pipeline's lease for a writer, which may take it over by the rules; one that
    `repairs` never does.

    Raises LeaseHeld where another run works. `on_lapse` is called when the lease is lost: a job
    ends itself (`halt`), for it must not go on.
    """
    warehouse = Warehouse.of(pipeline.name, settings)
    tables = pipeline_tables(pipeline, warehouse)
    return hold_lease(
        warehouse.places.lease,
        this_process(run_id, purpose),
        settings.storage_options,
        settings.lease_seconds,
        on_takeover=None if repairs else lambda number: fence_tables(tables, number),
        on_lapse=on_lapse,
    )
