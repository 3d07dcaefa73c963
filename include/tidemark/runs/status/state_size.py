"""How large a pipeline's state is, by what upkeep wrote down last: no file is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark.storage.delta.ops import newest_rows
from tidemark.storage.delta.place import TablePlace

# What `ops/upkeep` calls the files of state, among a checkpoint's shares.
STATE = "state"
# An act of upkeep writes the rows of all checkpoints in one file, so the newest row's file nearly
# always does; all are read where what came last was maintenance or a compaction, which tell less.
_FEW, _ALL = 1, 2**31


def state_bytes(upkeep: TablePlace, pipeline: str) -> int | None:
    """The bytes of state in all checkpoints of a pipeline: as their last state check found them,
    or as their last housekeeping left them, whichever was later.

    `upkeep` is the table `ops/upkeep`. None where it has no row of the pipeline.
    """
    table = upkeep.open()
    if table is None:
        return None
    for number in (_FEW, _ALL):
        newest = newest_rows(table, pipeline, "time", number)
        rows = [row for row in newest if row.get("state") or row["shares"]]
        last = [row for row in rows if row["time"] == rows[0]["time"]]
        if last:
            return sum(_bytes(row) for row in last)
    return None


def _bytes(row: Mapping[str, Any]) -> int:
    """A state check's row is of one store; one of housekeeping has a share for all state."""
    if row.get("state") is not None:
        return int(row["state"]["bytes"])
    shares = [share for share in row["shares"] or () if share["kind"] == STATE]
    return sum(int(share["bytes"] - share["bytes_deleted"]) for share in shares)
