"""Parquet files that Spark has written below a table's place, and the commit that adds them.

Until they are added, no reader sees them; those of a process that died stay behind, as they do
of every writer of Delta, until the table's next VACUUM. What the commit says of a file (rows,
nulls, smallest and largest values) is read from the file's own footer. Format of `stats`:
Delta's PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from typing import Any, Literal
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import PyFileSystem

from tidemark.errors import StorageUnavailable
from tidemark.pipeline.source_files import is_uri
from tidemark.storage.delta.append import appending, conformed
from tidemark.storage.delta.commits import ROWS_ADDED
from tidemark.storage.delta.notes import Note, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, list_files, stat_files, write_bytes

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class WrittenFile:
    """One file: its path below the table, its rows, and how many nulls each column has.

    `lowest` and `highest` have the columns of whole numbers, dates and timestamps (UTC) whose
    footer tells them within the years 1 to 9999, as JSON has them.
    """

    path: str
    facts: FileFacts
    partition: Mapping[str, str | None]
    rows: int
    nulls: Mapping[str, int]
    lowest: Mapping[str, Any]
    highest: Mapping[str, Any]


def written_files(table: DeltaTable, place: TablePlace, folder: str) -> list[WrittenFile]:
    """The files below `folder` of a table's place that hold rows, ordered by path. Those of tasks
    that did not commit are none, which Hadoop's committer keeps in `_temporary`."""
    options = dict(place.options)
    found = list_files(f"{place.uri}/{folder}", options)
    parquet = {
        file: facts
        for file, facts in found.items()
        if file.endswith(".parquet") and "/_temporary/" not in file
    }
    paths = {folder + file.rpartition(f"/{folder}")[2]: facts for file, facts in parquet.items()}
    return [file for file in _footers(table, place, paths) if file.rows]


def _footers(
    table: DeltaTable, place: TablePlace, paths: Mapping[str, FileFacts]
) -> list[WrittenFile]:
    """What the footers of files below a table's place say, ordered by path."""
    sizes = {path: facts.size for path, facts in paths.items()}
    handler = DeltaStorageHandler.from_table(table._table, dict(place.options), sizes)
    store = PyFileSystem(handler)  # type: ignore[arg-type]  # it is one

    def written(path: str) -> WrittenFile:
        return _written(path, paths[path], pq.read_metadata(path, filesystem=store))

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return list(pool.map(written, sorted(paths)))


def write_parquet(
    rows: pa.Table, place: FilePlace, folder: str, schema: pa.Schema, partition_by: Sequence[str]
) -> list[WrittenFile]:
    """Write rows as plain Parquet below `folder` of a table's place, a file for each partition.

    `schema` is the table's; a column that the rows do not have is null. The names of the files are
    new each time. No table has them before `add_files`: a process that dies leaves them behind.
    """
    stored = pa.schema([field for field in schema if field.name not in partition_by])
    written = []
    for values, part in _partitions(rows, partition_by):
        folders = [
            f"{name}={_NULL_PARTITION if value is None else quote(value, safe=' ')}"
            for name, value in values.items()
        ]
        path = "/".join([folder, *folders, f"{uuid4()}.parquet"])
        sink = pa.BufferOutputStream()
        pq.write_table(conformed(part, stored), sink)
        data = sink.getvalue()
        uri = f"{place.uri}/{quote(path) if is_uri(place.uri) else path}"
        write_bytes(uri, data.to_pybytes(), place.options)
        facts = stat_files([uri], place.options)[uri]
        if facts is None:
            raise StorageUnavailable(f"{uri} was written and is not there. Nothing was appended.")
        footer = pq.read_metadata(pa.BufferReader(data))
        written.append(replace(_written(path, facts, footer), partition=values))
    return written


def _partitions(
    rows: pa.Table, by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each combination of values; all of them where nothing divides them."""
    if not by:
        yield {}, rows
        return
    for values in rows.select(list(by)).group_by(list(by)).aggregate([]).to_pylist():
        matches = [
            pc.is_null(rows[name]) if value is None else pc.equal(rows[name], value)
            for name, value in values.items()
        ]
        yield _texts(values), rows.filter(reduce(pc.and_, matches))


def _texts(partition: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in partition.items()}


def files_gone(place: TablePlace, written: Sequence[WrittenFile]) -> list[str]:
    """Those of these files that are not there any more."""
    files = (f"{place.uri}/{one.path}" for one in written)
    return [one for one, facts in stat_files(files, place.options).items() if facts is None]


def add_files(
    table: DeltaTable, files: Sequence[WrittenFile], what: str, transaction: Transaction, note: Note
) -> None:
    """One commit that adds these files, which may be none, with a note.

    Raises StorageUnavailable where the table was changed in a way that excludes it, as by a
    takeover of the lease, and where a column that is never null holds one; it calls the rows
    `what`. None of them is in the table then.
    """
    required = [field.name for field in table.schema().fields if not field.nullable]
    for file in files:
        if broken := [name for name in required if file.nulls.get(name)]:
            raise StorageUnavailable(
                f"{what} have nulls in {', '.join(broken)} of {table.table_uri}, which is never "
                "null there. None of them was appended. Report this as a defect."
            )
    # delta-rs counts rows for its own writes only.
    metadata = {**as_metadata(note), ROWS_ADDED: str(sum(file.rows for file in files))}
    properties = CommitProperties(app_transactions=[transaction], custom_metadata=metadata)
    _commit(table, [*map(_added, files)], "append", table.schema(), what, properties)


def replace_files(
    table: DeltaTable, files: Sequence[WrittenFile], schema: Schema, what: str, note: Note
) -> None:
    """One commit after which the table has these files alone, which hold its rows, in columns of
    `schema`. Raises StorageUnavailable where it got another commit since it was opened."""
    _commit(table, [*map(_added, files)], "overwrite", schema, what, _of_no_new_row(note))


@dataclass(frozen=True)
class Leaving:
    """So many `rows`, which leave a table: of the files that have these `names` in its version
    `since`. `dates`, where given, are those of the files: Spark gives one name to all that a task
    writes, in a folder for each date."""

    since: int
    names: Collection[str]
    rows: int
    dates: Collection[date] | None = None

    def holds(self, path: str, add: Mapping[str, Any]) -> bool:
        """Does a file hold some of them, and is to be replaced?"""
        if unquote(path).rpartition("/")[2] not in self.names:
            return False
        return self.dates is None or add["partition"]["_event_date"] in self.dates


def rewrite_files(
    table: DeltaTable,
    place: TablePlace,
    leaving: Leaving,
    files: Sequence[WrittenFile],
    what: str,
    note: Note,
    now: datetime,
) -> None:
    """One commit after which the table has `files`, which hold `what` stays, in the place of those
    that hold what is leaving; all other rows are as they are.

    The table has the rows of that version. Where files have moved since (OPTIMIZE), so that some of
    them are gone, the commit has the other files of that version in their place again. Raises
    StorageUnavailable where that cannot be, where another number of rows would leave, and where the
    table got another commit since it was opened: nothing is committed then. `now` is in UTC.
    """
    there = planned = _adds(table)
    if table.version() != leaving.since:
        planned = _adds(place.at_version(leaving.since))
    held = {path for path, one in planned.items() if leaving.holds(path, one)}
    gone = {path: planned[path] for path in held & there.keys()}
    again: list[WrittenFile] = []
    if len(gone) < len(held):
        again = _back(table, place, planned.keys() - there.keys() - held)
        gone |= {path: one for path, one in there.items() if path not in planned}
    number = _rows_of(table, place, {path: planned[path] for path in held})
    staying = sum(one.rows for one in files)
    if number is not None and number - staying != leaving.rows:
        raise StorageUnavailable(
            f"{number:,} rows of {place.uri} would make room for {staying:,}, and {leaving.rows:,} "
            "are to leave. Nothing was committed. Report this as a defect."
        )
    now_ms = int(now.timestamp() * 1_000)
    removed = [
        RemoveAction(path, True, now_ms, one["size_bytes"], _texts(one.get("partition") or {}))
        for path, one in gone.items()
    ]
    added = [*map(_added, files), *map(_added, again)]
    _commit(table, [*added, *removed], "append", table.schema(), what, _of_no_new_row(note))


def _of_no_new_row(note: Note) -> CommitProperties:
    """Of a commit whose files hold rows that the table had."""
    metadata = {**as_metadata(note), ROWS_ADDED: "0"}
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0)


def _commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    mode: Literal["append", "overwrite"],
    schema: Schema,
    what: str,
    properties: CommitProperties,
) -> None:
    partitions = table.metadata().partition_columns
    with appending(table, what):
        table.create_write_transaction(
            [*actions], mode, schema, partitions, commit_properties=properties
        )


def _adds(table: DeltaTable) -> dict[str, dict[str, Any]]:
    """The files of a table, by their paths as its log has them."""
    # Bounds may be days and times that Python does not have.
    asked = ("path", "size_bytes", "num_records", "partition")
    told = pa.table(table.get_add_actions())
    files = told.select([one for one in asked if one in told.column_names])
    return {one["path"]: one for one in files.to_pylist()}


def _rows_of(
    table: DeltaTable, place: TablePlace, files: Mapping[str, Mapping[str, Any]]
) -> int | None:
    """How many rows files of a table hold; None where deletion vectors may have fewer."""
    if "deletionVectors" in (table.protocol().reader_features or ()):
        return None
    told: list[int] = [one["num_records"] or 0 for one in files.values()]
    untold = [path for path, one in files.items() if one["num_records"] is None]
    counted = _found(table, place, untold) if untold else []
    return sum(told) + sum(one.rows for one in counted)


def _back(table: DeltaTable, place: TablePlace, paths: Collection[str]) -> list[WrittenFile]:
    """Files that the table had, to be in it again."""
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise StorageUnavailable(
            f"The files of {place.uri} were moved (OPTIMIZE) since the act was planned, and it has "
            "deletion vectors, so that they cannot be taken back. Nothing was committed. Take the "
            "vectors out of it with Spark (`REORG TABLE … APPLY (PURGE)`, then drop the feature)."
        )
    return _found(table, place, paths)


def _found(table: DeltaTable, place: TablePlace, paths: Collection[str]) -> list[WrittenFile]:
    """Files that the table had at some version; StorageUnavailable where one is gone since."""
    uris = {path: f"{place.uri}/{path if is_uri(place.uri) else unquote(path)}" for path in paths}
    facts = stat_files(uris.values(), place.options)
    if lost := [uri for uri, found in facts.items() if found is None]:
        raise StorageUnavailable(
            f"{lost[0]}, a file of an earlier version of {place.uri}, is gone, by VACUUM. Nothing "
            "was committed. Put the file back from a backup, and repeat this."
        )
    found = {unquote(path): each for path in paths if (each := facts[uris[path]]) is not None}
    return _footers(table, place, found)


def _written(path: str, facts: FileFacts, footer: pq.FileMetaData) -> WrittenFile:
    nulls: dict[str, int] = {}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        found = [footer.row_group(n).column(index).statistics for n in range(footer.num_row_groups)]
        groups = [one for one in found if one is not None and one.null_count is not None]
        # A name with a dot is a part of a nested column.
        if "." in name or len(groups) < len(found):
            continue
        nulls[name] = sum(one.null_count or 0 for one in groups)
        # Texts are not told; and the bytes of a line need not be one.
        if footer.schema.column(index).physical_type == "BYTE_ARRAY":
            continue
        valued = [one for one in groups if one.num_values]
        if valued and all(one.has_min_max for one in valued):
            try:
                ends: list[Any] = [value for one in valued for value in (one.min, one.max)]
            except (OverflowError, ValueError):
                # Days and times outside the years 1 to 9999, which no value of Python can be.
                continue
            low, high = _as_json(min(ends)), _as_json(max(ends))
            if low is not None and high is not None:
                lowest[name], highest[name] = low, high
    return WrittenFile(path, facts, _partition(path), footer.num_rows, nulls, lowest, highest)


def _partition(path: str) -> dict[str, str | None]:
    """From the folders' names, `column=value`, which Spark escapes as URIs are."""
    pairs = [part.split("=", 1) for part in path.split("/")[:-1] if "=" in part]
    return {
        unquote(name): None if value == _NULL_PARTITION else unquote(value) for name, value in pairs
    }


def _as_json(value: object) -> int | str | None:
    """A value as `stats` has it; None for a type that is not told."""
    match value:
        case bool():
            return None
        case int():
            return value
        case datetime():
            in_utc = value if value.tzinfo else value.replace(tzinfo=UTC)
            return in_utc.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
    return None


def _added(file: WrittenFile) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": file.lowest,
        "maxValues": file.highest,
        "nullCount": file.nulls,
    }
    modified_ms = int(file.facts.modified.timestamp() * 1_000)
    return AddAction(
        file.path, file.facts.size, file.partition, modified_ms, True, json.dumps(stats)
    )
