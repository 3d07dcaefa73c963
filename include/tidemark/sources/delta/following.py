"""What versions of a table changed together: which rows went, and which came.

What the table held before them is compared with what it holds after, row by row, in the files that
only one of the two has. So it does not matter who wrote the versions, by DELETE, UPDATE, MERGE, an
overwrite or RESTORE, whether the table has a change feed, or what came and went between the two.
Rows that deletion vectors hide are none. A row is the same where its key and its JSON line are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from tidemark.errors import DataDamaged, SourceRefused
from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.pipeline.row_key import BETWEEN, ESCAPE
from tidemark.sources.delta.files import slice_of
from tidemark.sources.delta.log import AddedFile
from tidemark.sources.delta.offsets import DeltaPart, Offset
from tidemark.sources.delta.table import HeldFile, SourceTable
from tidemark.sources.formats.parquet import parquet_rows
from tidemark.sources.source import PartUnreadable
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.files import Options, read_bytes
from tidemark.storage.result_file import Facts

# The file of an act's folder that says which rows are new.
NEW_ROWS = "new_rows.json"
# More rows than these do not go, or come, in one act.
_MOST_GONE, _MOST_NEW = 100_000, 1_000_000
_MOST_SHOWN = 5
# No line is too large to be compared.
_ANY_SIZE = 2**31 - 1
_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.string()),
    pa.field("digest", pa.binary()),
    pa.field("file", pa.string()),
    pa.field("row", pa.int64()),
]
_ROWS = pa.schema(_FIELDS)
_LEFT = (
    "Nothing was read, and nothing was changed. To go on without these versions set "
    "source.delta.changes to stop, and accept them"
)


class NewRows(Facts):
    """Rows of a file that the table did not hold before: the version that added the file, its path,
    its partition's values and bytes as the log has them, and the rows' places in it, from 0."""

    version: int
    path: str
    partition: dict[str, str | None]
    bytes: int
    rows: tuple[int, ...]

    @property
    def part(self) -> DeltaPart:
        """The part of the source."""
        return DeltaPart(self.version, self.path)

    @property
    def file(self) -> AddedFile:
        """The file, as the log has it."""
        return AddedFile(self.path, self.partition, len(self.rows), self.bytes, False)


@dataclass(frozen=True)
class SourceChange:
    """What versions changed together: the keys of rows that went, or are others now, as text; and
    of the rows that came, or are others now, their keys and places. Rows without a key have none.
    """

    gone: tuple[str, ...]
    came: tuple[str, ...]
    new: tuple[NewRows, ...]


_NEW = TypeAdapter(tuple[NewRows, ...])


def new_rows_text(new: tuple[NewRows, ...]) -> bytes:
    """What the file of new rows holds."""
    return _NEW.dump_json(new)


def read_new_rows(place: str, options: Options) -> tuple[NewRows, ...]:
    """Of the file at a URI; FileMissing where it is not there."""
    return _NEW.validate_json(read_bytes(place, options))


def source_change(table: SourceTable, offset: Offset, key: Sequence[str]) -> SourceChange:
    """What the versions of an offset changed, by a key that no two rows of the table share, of one
    column or several; null is none. Reads the files that only one of the two snapshots has, and of
    the others the key.

    SourceRefused where a key of these rows is of several rows, where there are too many rows, or
    where a file cannot be read, or the log does not tell any more what the table held before;
    DataDamaged where it does not tell what it holds.
    """
    was = offset.begin - 1
    try:
        before = table.held(was)
    except DataDamaged as error:
        raise SourceRefused(
            f"Rows of the table {table.uri} were changed, and what it held at version {was}, up to "
            "which it was read, is not in its log any more: so which rows went is not told. "
            f"{_LEFT}; or restore the log from a backup."
        ) from error
    after = table.held(offset.last)
    same = {path for path, one in before.items() if after.get(path) == one}
    versions = [one for _, one in table.versions(offset.versions) if one is not None]
    # A file that only got statistics was added before.
    added = {path: one.number for one in versions for path in one.moved}
    added |= {file.path: one.number for one in versions for file in one.added}
    try:
        old = _rows(table, {path: one for path, one in before.items() if path not in same}, key)
        now = _rows(table, {path: one for path, one in after.items() if path not in same}, key)
        gone, new = _compared(table, old, now)
        changed = pa.concat_tables([gone, new])["key"].combine_chunks().drop_null()
        _check_unique(table, key, {path: before[path] for path in same}, changed)
    except PartUnreadable as error:
        raise SourceRefused(
            f"{error.part} of the table {table.uri}: {error.cause}. {_LEFT}."
        ) from error
    places: dict[str, list[int]] = {}
    for one in new.to_pylist():
        places.setdefault(one["file"], []).append(one["row"])
    found = [
        NewRows(
            version=added.get(path, offset.last),
            path=path,
            partition=dict(after[path].file.partition),
            bytes=after[path].file.bytes,
            rows=tuple(rows),
        )
        for path, rows in sorted(places.items())
    ]
    return SourceChange(_keys(gone), _keys(new), tuple(found))


def _keys(rows: pa.Table) -> tuple[str, ...]:
    return tuple(str(one) for one in rows["key"].to_pylist() if one is not None)


def _rows(table: SourceTable, held: Mapping[str, HeldFile], key: Sequence[str]) -> pa.Table:
    """The rows of files, in the columns of `_ROWS`."""
    pieces = [_ROWS.empty_table()]
    for path, one in held.items():
        part = slice_of(table, DeltaPart(0, path), one.file)
        for typed in part.typed(_ANY_SIZE):
            lines = typed.lines(None)
            values: list[Any] = lines["_value"].to_pylist()
            digests = [blake2b(line, digest_size=16).digest() for line in values]
            places = typed.origin["_row"]
            columns: list[Any]
            rows: Array = typed.rows
            fields = dict(zip(rows.type.names, rows.flatten(), strict=True))
            keys = keys_of(fields, key, len(digests))
            columns = [keys, digests, pa.repeat(path, len(digests)), places]
            piece = pa.table(dict(zip(_ROWS.names, columns, strict=True)), _ROWS)
            pieces.append(piece.filter(one.is_live(places)))
    return pa.concat_tables(pieces)


def keys_of(columns: Mapping[str, Array], key: Sequence[str], rows: int) -> Array:
    """The texts of rows' keys (`row_key.key_text`); null where a column is null, or not there."""
    if not set(key) <= columns.keys():
        return pa.nulls(rows, pa.string())
    texts = [columns[name].cast(pa.string()) for name in key]
    if len(texts) == 1:
        return texts[0]
    escaped = [pc.replace_substring(one, ESCAPE, ESCAPE * 2) for one in texts]
    parts = [pc.replace_substring(one, BETWEEN, ESCAPE + BETWEEN) for one in escaped]
    return pc.binary_join_element_wise(*parts, BETWEEN)


def _compared(table: SourceTable, old: pa.Table, now: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What only the one has, and what only the other."""
    with duckdb_in_utc() as connection:
        for name, rows in (("old_rows", old), ("new_rows", now)):
            connection.register(f"{name}_given", rows)
            # Rows that are the same in all are told apart by their number: null is no key.
            connection.execute(
                f"""
                CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER (
                    PARTITION BY key, digest ORDER BY file, "row") AS n FROM {name}_given
                """
            )
        found = []
        for name, other, most in (
            ("old_rows", "new_rows", _MOST_GONE),
            ("new_rows", "old_rows", _MOST_NEW),
        ):
            same = "o.key IS NOT DISTINCT FROM r.key AND o.digest = r.digest AND o.n = r.n"
            only = connection.sql(
                f"""
                SELECT r.* FROM {name} r ANTI JOIN {other} o ON {same}
                ORDER BY r.file, r."row"
                """
            ).to_arrow_table()
            if len(only) > most:
                what = "went" if name == "old_rows" else "came"
                raise SourceRefused(
                    f"In the table {table.uri} {len(only):,} rows {what}, and at most {most:,} are "
                    f"followed at once. {_LEFT}; or let a pipeline of a new name read the table."
                )
            found.append(only)
        connection.register("gone", found[0])
        connection.register("came", found[1])
        repeated = connection.sql(
            """
            WITH changed AS (SELECT key FROM gone UNION SELECT key FROM came)
            SELECT DISTINCT key FROM (
                SELECT key, 'old' AS side FROM old_rows UNION ALL SELECT key, 'new' FROM new_rows
            ) SEMI JOIN changed USING (key) GROUP BY key, side HAVING count(*) > 1 ORDER BY key
            """
        ).fetchall()
    _refuse_repeated(table, [str(one) for (one,) in repeated])
    return found[0], found[1]


def _check_unique(
    table: SourceTable, key: Sequence[str], held: Mapping[str, HeldFile], changed: Array
) -> None:
    """No file that did not change has a row of these keys."""
    if not len(changed):
        return
    found: list[str] = []
    for path, one in held.items():
        before, place = 0, table.uri_of(one.file)
        for rows in parquet_rows(path, place, table.options, "It is gone", [*key]):
            if not set(key) <= {*rows.column_names}:
                break
            places = pa.array(np.arange(before, before + len(rows)))
            before += len(rows)
            columns = dict(zip(rows.column_names, rows.columns, strict=True))
            keys = keys_of(columns, key, len(rows)).filter(one.is_live(places))
            found += keys.filter(pc.is_in(keys, changed)).to_pylist()
    _refuse_repeated(table, found)


def _refuse_repeated(table: SourceTable, keys: Sequence[str]) -> None:
    if keys:
        shown = ", ".join(keys[:_MOST_SHOWN]) + (" …" if len(keys) > _MOST_SHOWN else "")
        raise SourceRefused(
            f"Of rows of the table {table.uri} that changed several have one key ({shown}), so "
            f"which of them bronze has is not told. {_LEFT}."
        )
