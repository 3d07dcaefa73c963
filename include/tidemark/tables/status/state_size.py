"""How large a pipeline's state is, by what upkeep wrote down last: no file is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark.tables.create import open_table
from tidemark.tables.ops import newest_rows

# What `ops/upkeep` calls the files of state, among a checkpoint's shares.
STATE = "state"


def state_bytes(upkeep: str, pipeline: str, options: Mapping[str, str]) -> int | None:
    """The bytes of state in all checkpoints of a pipeline: as their last state check found them,
    or as their last housekeeping left them, whichever was later.

    `upkeep` is the table `ops/upkeep`. None where it has no row of the pipeline.
    """
    table = open_table(upkeep, options)
    # An act of upkeep writes the rows of all checkpoints in one file.
    rows = newest_rows(table, pipeline, "time", 1) if table is not None else []
    last = [row for row in rows if row["time"] == rows[0]["time"]]
    if not last:
        return None
    return sum(_bytes(row) for row in last)


def _bytes(row: Mapping[str, Any]) -> int:
    """A state check's row is of one store; one of housekeeping has a share for all state."""
    if row.get("state") is not None:
        return int(row["state"]["bytes"])
    shares = [share for share in row["shares"] or () if share["kind"] == STATE]
    return sum(int(share["bytes"] - share["bytes_deleted"]) for share in shares)
