"""The rows that a Delta table got in some of its commits, found by the files that they added.

The change data feed says the same, but it also reads what a commit removed; here only files are
opened that were appended. Format: `add` actions of `_delta_log/N.json` (PROTOCOL.md, Add File).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.dataset import FileSystemDataset, ParquetFileFormat
from pyarrow.fs import PyFileSystem

from tidemark.errors import StorageUnavailable
from tidemark.storage.files import FileMissing, read_bytes
from tidemark.tables.history import schema_of


def appended_rows(table: DeltaTable, uri: str, first: int, last: int) -> FileSystemDataset:
    """A dataset of the rows that the versions first..last (both included) appended to `table`.

    Its columns are the table's, without the partition's. Files that only moved rows
    (`dataChange` false) are left out, and so are all files of a commit that removed rows: the
    streams skip those too (`skipChangeCommits`), for what they add are the rows that stayed.
    StorageUnavailable where a commit's log entry is gone.
    """
    options = dict(table._storage_options or {})
    sizes = dict(_added_files(uri, first, last, options))
    handler = DeltaStorageHandler.from_table(table._table, options, sizes)
    store, parquet = PyFileSystem(handler), ParquetFileFormat()  # type: ignore[arg-type]  # it is one
    fragments = [parquet.make_fragment(path, filesystem=store) for path in sizes]
    return FileSystemDataset(fragments, _stored_schema(table), parquet, store)


def _stored_schema(table: DeltaTable) -> pa.Schema:
    schema = schema_of(table)
    partitions = set(table.metadata().partition_columns)
    return pa.schema([field for field in schema if field.name not in partitions])


def _added_files(
    uri: str, first: int, last: int, options: Mapping[str, str]
) -> Iterator[tuple[str, int]]:
    for version in range(first, last + 1):
        actions = [json.loads(line) for line in _commit(uri, version, options).splitlines()]
        if any("remove" in action and action["remove"]["dataChange"] for action in actions):
            continue
        for added in (action["add"] for action in actions if "add" in action):
            if added["dataChange"]:
                yield unquote(added["path"]), int(added["size"])


def _commit(uri: str, version: int, options: Mapping[str, str]) -> bytes:
    name = f"{uri}/_delta_log/{version:020}.json"
    try:
        return read_bytes(name, options)
    except FileMissing as error:
        raise StorageUnavailable(
            f"{name} is not there, and the rows that this version appended have to be read. "
            "Nothing was written. If the table's log was cleaned of versions that are not "
            "published yet, raise delta.logRetentionDuration and restore the log entry."
        ) from error
