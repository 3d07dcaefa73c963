"""How large a pipeline's state is, by what housekeeping wrote down last: no file is listed."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.tables.create import open_table
from tidemark.tables.ops import newest_rows

# What `ops/upkeep` calls the files of state, among a checkpoint's shares.
STATE = "state"


def state_bytes(upkeep: str, pipeline: str, options: Mapping[str, str]) -> int | None:
    """The bytes of state in all checkpoints of a pipeline after their last housekeeping.

    `upkeep` is the table `ops/upkeep`. None where it has no row of the pipeline.
    """
    table = open_table(upkeep, options)
    # An act of housekeeping writes the rows of all checkpoints in one file.
    rows = newest_rows(table, pipeline, "time", 1) if table is not None else []
    last = [row for row in rows if row["time"] == rows[0]["time"]]
    if not last:
        return None
    shares = [share for row in last for share in row["shares"] or () if share["kind"] == STATE]
    return sum(int(share["bytes"] - share["bytes_deleted"]) for share in shares)
