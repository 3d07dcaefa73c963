"""The state check of a pipeline's checkpoints, between runs: read only, so no lease is needed.

It lists each checkpoint by itself, though housekeeping has just done so: what it records is what
is left, and it must not depend on a housekeeping that was refused or found the lease held. After a
housekeeping the listing is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import StateCheck, StateVerdict, StoreCheck, check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.errors import StateLost
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.checkpoints_in_use import InUse, checkpoints_in_use
from tidemark.upkeep.record import STATE_CHECK, append_upkeep, row_head


@dataclass(frozen=True)
class Checked:
    """A pipeline's checkpoint and the check of its state; None where no query has started."""

    checkpoint: InUse
    state: StateCheck | None


def check_pipeline(pipeline: Pipeline, settings: Settings) -> tuple[Checked, ...]:
    """Check the state of each checkpoint in use; nothing is changed.

    StorageUnavailable where one cannot be listed. A run that works meanwhile is not disturbed; the
    check then tells of a version that may be out of date.
    """
    limits = pipeline.advanced.state.limits
    return tuple(
        Checked(one, check_state(inventory(read_checkpoint(one.place), one.keeps_state), limits))
        if one.place.names()
        else Checked(one, None)
        for one in checkpoints_in_use(pipeline, Warehouse.of(pipeline.name, settings))
    )


def record_checks(
    upkeep: OpsPlace, pipeline: str, run_id: str, time: datetime, checked: Sequence[Checked]
) -> None:
    """Append a row to `ops/upkeep` for each store that was checked. `time` is in UTC.

    A repetition is another look, with rows of its own. No row for a query without state.
    """
    rows = [
        row_head(pipeline, run_id, time, STATE_CHECK, one.checkpoint)
        | {"verdict": str(store.worst.verdict), "state": _state(one.state, store)}
        for one in checked
        if one.state is not None
        for store in one.state.stores
    ]
    append_upkeep(upkeep, rows)


def check_none_lost(pipeline: str, checked: Sequence[Checked]) -> None:
    """Raise StateLost where the state of a checkpoint cannot be rebuilt."""
    lost = [
        f"{one.checkpoint.name} ({one.checkpoint.place.uri}): {one.state.reason}"
        for one in checked
        if one.state is not None and one.state.verdict is StateVerdict.LOST
    ]
    if lost:
        raise StateLost(
            f"The state of {len(lost)} of {len(checked)} queries of `{pipeline}` cannot be "
            f"rebuilt, so the next run stops there. {' '.join(lost)} Nothing was changed. What to "
            f"do says `tidemark checkpoint doctor {pipeline}`."
        )


def _state(state: StateCheck, one: StoreCheck) -> dict[str, Any]:
    store = one.store
    held, snapshots, changes = store.held, store.snapshots, store.replayed
    return {
        "operator": store.operator,
        "operator_name": store.operator_name,
        "store": store.store,
        "provider": str(store.provider),
        "version": state.version,
        "partitions": len(store.partitions),
        "files": held.files,
        "bytes": held.size,
        "snapshot_files": snapshots.files,
        "snapshot_bytes": snapshots.size,
        "changes": changes.files,
        "change_bytes": changes.size,
        "longest_chain": store.longest,
        "skew": store.skew,
        "reason": one.worst.reason,
        "query_verdict": str(state.verdict),
    }
