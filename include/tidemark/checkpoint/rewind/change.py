"""What is changed in a checkpoint and its sink: frozen, and written into the backup as JSON.

A repetition after a kill carries out what stands in the backup, and plans nothing anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, TypeAdapter

from tidemark.errors import RewindRefused
from tidemark.storage.json_text import json_value

_FORMAT = 1


def _below(name: str) -> str:
    """The name of a file below a folder, and of none elsewhere."""
    if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{name!r} is no file below the folder")
    return name


Name = Annotated[str, AfterValidator(_below)]


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
    listed: Mapping[Name, int]
    removed: tuple[Name, ...]


@dataclass(frozen=True)
class CheckpointChange:
    """The change of one checkpoint. Names count from its folder.

    `title`: what is done, in words. `listed`: all files that were there when it was planned, with
    their sizes. `removed` go in this order, then `written` are written. `last_batch`: the newest
    committed batch afterwards, None for none. `sink`: what `--sink` said, also where nothing of it
    is changed; None where nobody said it, and in backups of before.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    uri: str
    title: str
    listed: Mapping[Name, int]
    removed: tuple[Name, ...]
    last_batch: int | None
    written: Mapping[Name, str] = field(default_factory=dict)
    table: TableChange | None = None
    sink_log: SinkLogChange | None = None
    sink: str | None = None

    @property
    def left(self) -> set[str]:
        """The files that are there afterwards."""
        return (self.listed.keys() - set(self.removed)) | self.written.keys()

    def as_json(self) -> bytes:
        return json.dumps({"format": _FORMAT} | asdict(self), indent=1).encode()


def change_from_json(data: bytes, place: str) -> CheckpointChange:
    """RewindRefused where it is none that this version writes, or names a file elsewhere."""
    try:
        value = json_value(data)
        if value.pop("format") != _FORMAT:
            raise ValueError("another format")
        return _reader().validate_python(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RewindRefused(
            f"{place} is damaged, or a newer Tidemark has written it: it cannot be read as "
            f"what a rewind or a repair writes ({' '.join(str(error).split())[:300]}). Nothing was "
            "changed."
        ) from error


@cache
def _reader() -> TypeAdapter[CheckpointChange]:
    return TypeAdapter(CheckpointChange)
