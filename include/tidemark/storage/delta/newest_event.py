"""The newest event of a table, by the statistics of its files: no row is read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.pipeline.instants import epoch_ms


def newest_event_ms(table: DeltaTable, column: str) -> int | None:
    """The largest value of a timestamp column, in milliseconds since 1970, rounded down.

    None where the table is empty, or a file has no statistics of the column.
    """
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    name = f"max.{column}"
    if name not in actions.column_names or actions[name].null_count:
        return None
    newest = max((value for value in actions[name].to_pylist()), default=None)
    return None if newest is None else epoch_ms(_in_utc(newest))


def _in_utc(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
