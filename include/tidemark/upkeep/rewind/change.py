"""What is changed in a checkpoint and its sink: frozen, and written into the backup as JSON.

A repetition after a kill carries out what stands in the backup, and plans nothing anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemark.errors import RewindRefused

_FORMAT = 1


@dataclass(frozen=True)
class TableChange:
    """A Delta table taken back to `version`, the query's transaction to `batch`, in one commit.

    `seen` and `batch_seen` are the table's version and the query's transaction before it.
    """

    uri: str
    query_id: str
    seen: int
    version: int
    batch_seen: int
    batch: int


@dataclass(frozen=True)
class SinkLogChange:
    """The log of a file sink taken back: `listed` are the files of the folder `_spark_metadata` at
    `uri`, by name with their sizes, `removed` those that go."""

    uri: str
    listed: Mapping[str, int]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointChange:
    """The change of one checkpoint. Names count from its folder.

    `title`: what is done, in words. `listed`: all files that were there when it was planned, with
    their sizes. `removed` go in this order, then `written` are written. `last_batch`: the newest
    committed batch afterwards, None for none.
    """

    uri: str
    title: str
    listed: Mapping[str, int]
    removed: tuple[str, ...]
    last_batch: int | None
    written: Mapping[str, str] = field(default_factory=dict)
    table: TableChange | None = None
    sink_log: SinkLogChange | None = None

    def as_json(self) -> bytes:
        return json.dumps({"format": _FORMAT} | asdict(self), indent=1).encode()


def change_from_json(data: bytes, place: str) -> CheckpointChange:
    """RewindRefused where it is none that this version writes."""
    try:
        value: dict[str, Any] = json.loads(data)
        if value.pop("format") != _FORMAT:
            raise ValueError("another format")
        table, log = value.pop("table"), value.pop("sink_log")
        return CheckpointChange(
            **value | {"removed": tuple(value["removed"])},
            table=TableChange(**table) if table else None,
            sink_log=SinkLogChange(**log | {"removed": tuple(log["removed"])}) if log else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RewindRefused(
            f"{place} cannot be read as what a rewind or a repair writes ({error}). Nothing was "
            "changed. A newer Tidemark may have written it."
        ) from error
