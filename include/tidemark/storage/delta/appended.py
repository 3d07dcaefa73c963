"""The rows that a Delta table got in some of its commits, found by the files that they added.

The change data feed says the same, but it also reads what a commit removed; here only files are
opened that were appended. Format: `add` actions of `_delta_log/N.json` (PROTOCOL.md, Add File).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.dataset import FileSystemDataset, ParquetFileFormat
from pyarrow.fs import PyFileSystem

from tidemark.errors import StorageUnavailable
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.damage import LOG
from tidemark.storage.delta.dataset import data_files, dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import FileMissing, stat_files


def appended_rows(table: DeltaTable, place: TablePlace, first: int, last: int) -> ds.Dataset:
    """A dataset of the rows that the versions first..last (both included) appended to `table`.

    It has the table's columns, but for the partition's. Files that only moved rows
    (`dataChange` false) are left out, and so are all files of a commit that removed rows: the
    streams skip those too (`skipChangeCommits`), for what they add are the rows that stayed.
    StorageUnavailable where a commit's log entry is gone.

    From version 0 on these are the rows of the table as it is at `last`, as they are for a stream
    that begins: files of its first versions may have been packed, and their log entries be gone.
    """
    if first == 0 and last > 0:
        return dataset_of(place.at_version(last))
    sizes = {
        unquote(added["path"]): int(added["size"])
        for version in range(first, last + 1)
        for added in _appended(commit_actions(place, version))
    }
    handler = DeltaStorageHandler.from_table(table._table, dict(place.options), sizes)
    store, parquet = PyFileSystem(handler), ParquetFileFormat()  # type: ignore[arg-type]  # it is one
    fragments = [parquet.make_fragment(path, filesystem=store) for path in sizes]
    return FileSystemDataset(fragments, _stored_schema(table), parquet, store)


def first_append(place: TablePlace, first: int, last: int) -> datetime | None:
    """When the oldest of the versions first..last that appended rows was committed, in UTC, by
    its writer's clock.

    None where none of them did: they only moved or removed rows, or changed what the table says
    of itself. StorageUnavailable where a commit's log entry is gone.
    """
    for version in range(first, last + 1):
        actions = commit_actions(place, version)
        if any(_appended(actions)):
            stamps = [a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a]
            return instant_of(stamps[0] if stamps else 0)
    return None


def lacking_from(place: TablePlace, first: int) -> Iterator[str]:
    """What is gone, in words, of the rows that a table's versions appended from one on: the log's
    entry of one, or files that it added."""
    for version in range(first, place.existing().version() + 1):
        try:
            added = _appended(_actions(place.read(_entry(version))))
        except FileMissing:
            yield f"the log of {place.uri} has no version {version} any more"
            return
        yield from _lacking_files(place, [place.below(unquote(one["path"])) for one in added])


def lacking_at(place: TablePlace, version: int) -> Iterator[str]:
    """What is gone of a table as it was at a version."""
    if entry_mark(place, version) < 0:
        yield f"the log of {place.uri} has no version {version} any more"
        return
    yield from _lacking_files(place, data_files(place, place.at_version(version)))


def _lacking_files(place: TablePlace, files: Sequence[str]) -> Iterator[str]:
    gone = [file for file, facts in stat_files(files, place.options).items() if facts is None]
    if gone:
        yield f"the file {gone[0]} is gone"


def _stored_schema(table: DeltaTable) -> pa.Schema:
    schema = schema_of(table)
    partitions = set(table.metadata().partition_columns)
    return pa.schema([field for field in schema if field.name not in partitions])


def _appended(actions: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The files of a commit whose rows are new."""
    if any("remove" in action and action["remove"]["dataChange"] for action in actions):
        return
    for added in (action["add"] for action in actions if "add" in action):
        if added["dataChange"]:
            yield added


def commit_actions(place: TablePlace, version: int) -> list[dict[str, Any]]:
    """The actions of a commit, as its log entry holds them (PROTOCOL.md, Actions).

    StorageUnavailable where the entry is gone.
    """
    return _actions(_commit(place, version))


def _actions(entry: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in entry.splitlines()]


def changes_rows(place: TablePlace, version: int) -> bool:
    """Did a commit add or remove rows, and not only move them between files? StorageUnavailable
    where its entry is gone."""
    files = (one.get("add") or one.get("remove") for one in commit_actions(place, version))
    return any(one["dataChange"] for one in files if one)


def entry_mark(place: TablePlace, version: int) -> int:
    """A number by which the log's entry of a version is told from any other, in 63 bits as app
    transactions have them; -1 where the log does not have it. A RESTORE keeps the entries; where
    a folder was put back from a backup and written to again, they are others."""
    try:
        entry = place.read(_entry(version))
    except FileMissing:
        return -1
    return int.from_bytes(hashlib.sha256(entry).digest()[:8]) >> 1


def _entry(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def _commit(place: TablePlace, version: int) -> bytes:
    name = _entry(version)
    try:
        return place.read(name)
    except FileMissing as error:
        raise StorageUnavailable(
            f"{place.uri}/{name} is not there, and the rows that this version appended have to "
            "be read. Nothing was written. If the table's log was cleaned of versions that are not "
            "published yet, raise delta.logRetentionDuration and restore the log entry."
        ) from error
