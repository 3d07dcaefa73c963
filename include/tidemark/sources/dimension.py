"""What a lookup is copied from: a Delta table, or a file, as others left it.

Values are strict: text is a value of a type where it can be nothing else, and no number is rounded.
What is none ends the run, with the file, the row and the column.
"""

from __future__ import annotations

import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from csv import Error as CsvError
from csv import field_size_limit, reader
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, TextIOWrapper
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from pyarrow import csv, parquet

from tidemark.errors import LookupBroken, SourceNotFound, SourceUnavailable
from tidemark.judge.json_text import LineReader, NotAnObject, json_text
from tidemark.judge.kinds import Kind, SimpleKind, arrow_type, kind_of
from tidemark.judge.values import WRONG, ReadValue, value_reader
from tidemark.pipeline.model import JSON_LINES_FILES, Lookup
from tidemark.pipeline.settings.storage_options import delta_options, is_local
from tidemark.sources.delta.log import mapped_by
from tidemark.storage.delta.appended import entry_mark
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.files import FileMissing, Options, read_bytes

UNCHANGED = "Nothing was written, and gold is as it was."
_FINER = re.compile("[.][0-9]{7}")
# pyarrow reads no longer record.
_MOST_IN_FIELD = 2 * 1024**2
_DIGITS = "[+-]?[0-9]+"
_DECIMAL = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
# Java's ZoneOffset goes this far.
_OFFSET = "(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00)"
# What text has to look like, whole, to be a value of a type, as DuckDB has both.
_FORMS: dict[pa.DataType, tuple[str, str]] = {
    pa.bool_(): ("(?i)true|false", "BOOLEAN"),
    pa.int8(): (_DIGITS, "TINYINT"),
    pa.int16(): (_DIGITS, "SMALLINT"),
    pa.int32(): (_DIGITS, "INTEGER"),
    pa.int64(): (_DIGITS, "BIGINT"),
    pa.float32(): (_DECIMAL, "FLOAT"),
    pa.float64(): (_DECIMAL, "DOUBLE"),
    pa.date32(): (_DAY, "DATE"),
    pa.timestamp("us", "UTC"): (f"{_DAY}[T ]{_CLOCK}{_OFFSET}", "TIMESTAMPTZ"),
}


@dataclass(frozen=True)
class Dimension:
    """The source of a lookup, at one version; `uri` is where it lies. `why_not`: why a file at such
    a place is not read; None where it is."""

    name: str
    lookup: Lookup
    uri: str
    options: Options
    why_not: Callable[[str], str | None]

    @property
    def version(self) -> str:
        """What tells it from another content at the same place."""
        if self.lookup.file is not None:
            return f"{self.uri} {hashlib.sha256(self._bytes).hexdigest()}"
        # A table that was put back from a backup and written to since has its id and numbers again.
        version = self.table.version()
        mark = entry_mark(TablePlace(self.uri, self.options), version)
        return f"{self.uri} {self.table.metadata().id}@{version} {mark}"

    @cached_property
    def table(self) -> DeltaTable:
        """The table as it is now. Raises SourceNotFound, SourceUnavailable, LookupBroken where its
        columns would be read as others."""
        try:
            table = DeltaTable(self.uri, storage_options=delta_options(self.options))
        except TableNotFoundError as error:
            raise self._not_there() from error
        except (DeltaError, OSError) as error:
            raise self._unavailable(error) from error
        metadata = table.metadata()
        mode = mapped_by(metadata.configuration)
        named = {*self.lookup.on.values(), *self.lookup.columns}
        for one in (one for one in table.schema().fields if one.name in named):
            # delta-rs refuses it only where the protocol lists features. Where the mapping was set
            # later, columns of before are in the files by their own names.
            if mode and one.metadata.get("delta.columnMapping.physicalName") != one.name:
                raise self.broken(
                    f"has its column `{one.name}` mapped by {mode}, which is not read: name a copy "
                    "without it"
                )
            partitions = metadata.partition_columns
            if one.name in partitions and one.type == PrimitiveType("timestamp"):
                raise self.broken(
                    f"is partitioned by `{one.name}`, a timestamp, whose value in the log has no "
                    "zone of its own: name a copy that is not"
                )
        return table

    def rows(self, kinds: Mapping[str, str]) -> pa.Table:
        """All its rows in these columns, as they are typed; text of a file without a value is null.
        LookupBroken where it has no such columns, or a value that is of no such type."""
        if self.lookup.file is not None and self.lookup.file.lower().endswith(JSON_LINES_FILES):
            return self._of_lines({name: kind_of(text) for name, text in kinds.items()})
        typed = {name: arrow_type(kind_of(text)) for name, text in kinds.items()}
        try:
            found = self._read(list(typed))
        except (
            pa.ArrowInvalid,
            pa.ArrowKeyError,
            pa.ArrowNotImplementedError,
            CsvError,
            DeltaError,
            UnicodeDecodeError,
        ) as error:
            raise self.broken(f"cannot be read: {error}") from error
        except OSError as error:
            # A file is in memory by now, and the system's own errors have a number: what has none
            # is said of damaged bytes. Of a table on an object store nobody can tell.
            if error.errno is None and (self.lookup.file is not None or is_local(self.uri)):
                raise self.broken(f"cannot be read: {error}") from error
            raise self._unavailable(error) from error
        if self.lookup.file is not None and self.lookup.file.lower().endswith(".csv"):
            return self._of_texts(found, typed)
        columns = [self._cast(found.column(name), name, kind) for name, kind in typed.items()]
        return pa.table(columns, names=list(typed))

    def broken(self, reason: str) -> LookupBroken:
        """The error that it raises for a reason."""
        return LookupBroken(
            f"The lookup {self.name}: {self.uri} {reason}. {UNCHANGED} Mend it, then run again."
        )

    @cached_property
    def _bytes(self) -> bytes:
        try:
            return read_bytes(self.uri, self.options)
        except FileMissing as error:
            raise self._not_there() from error

    def _unavailable(self, error: Exception) -> SourceUnavailable:
        return SourceUnavailable(
            f"{self.uri}, which the lookup {self.name} is read from, cannot be read: {error}. "
            f"{UNCHANGED} Try again."
        )

    def _not_there(self) -> SourceNotFound:
        return SourceNotFound(
            f"There is no {self.uri}, which the lookup {self.name} is read from. {UNCHANGED}"
        )

    def _read(self, names: list[str]) -> pa.Table:
        if self.lookup.file is None:
            self._check_columns(names, [one.name for one in self.table.schema().fields])
            refused = ((uri, self.why_not(uri)) for uri in self.table.file_uris())
            for uri, why in refused:
                if why:
                    raise self.broken(f"has the file {uri}, which {why}")
            return dataset_of(self.table).to_table(columns=names)
        if not self.lookup.file.lower().endswith(".csv"):
            # It needs NumPy, which a run that only asks for the version goes without.
            from tidemark.sources.formats.parquet import typed_schema

            # As a source's files are read.
            file = parquet.ParquetFile(
                pa.BufferReader(self._bytes),
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
            )
            self._check_columns(names, file.schema_arrow.names)
            found = pa.table(file.read(columns=names))
            known = typed_schema(file)
            for place, name in enumerate(found.column_names):
                # Of Spark's INT96, which is an instant, Arrow tells no zone.
                column, kind = found.column(name), known.field(name).type
                if column.type == pa.timestamp("us") and column.type != kind:
                    found = found.set_column(place, name, column.cast(kind))
            return found
        self._check_quotes()
        # pyarrow tells the names of a header only where it can tell their types.
        header = next(reader(TextIOWrapper(BytesIO(self._bytes), "utf-8-sig", newline="")), [])
        self._check_columns(names, header)
        # A header without a line's end is none to it.
        return csv.read_csv(
            BytesIO(self._bytes.rstrip(b"\r\n") + b"\n"),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _check_quotes(self) -> None:
        """pyarrow takes what stands behind a quote that is not closed, rows and all, for one value,
        and text behind a closing one for a part of it."""
        if b'"' not in self._bytes:
            return
        # By bytes: columns that nobody reads may have any encoding.
        known = BytesIO(self._bytes.removeprefix(BOM_UTF8))
        lines = reader(TextIOWrapper(known, "latin-1", newline=""), strict=True)
        begin, most = 1, field_size_limit(_MOST_IN_FIELD)
        try:
            for _ in lines:
                begin = lines.line_num + 1
        except CsvError as error:
            raise self.broken(
                "has a quote that is not closed, or text behind a closing one, in the record that "
                f"begins in line {begin} ({error})"
            ) from None
        finally:
            field_size_limit(most)

    def _check_columns(self, names: list[str], known: list[str]) -> None:
        for name in names:
            if (count := known.count(name)) != 1:
                said = "no column" if not count else f"{count} columns"
                raise self.broken(f"has {said} `{name}`; it has {', '.join(known)}")

    def _of_lines(self, kinds: Mapping[str, Kind]) -> pa.Table:
        """One JSON object in each line, with values as a source's lines have them."""
        lines = self._bytes.split(b"\n")
        lines = lines if lines[-1] else lines[:-1]
        reader, known = LineReader(), set[str]()
        columns: list[tuple[str, ReadValue, list[Any]]] = [
            (name, value_reader(kind), []) for name, kind in kinds.items()
        ]
        for row, line in enumerate(lines, 1):
            try:
                fields = reader.read(line)
            except NotAnObject as error:
                raise self.broken(
                    f"has no object in row {row}: {error}. A file of JSON has one in each line"
                ) from None
            known.update(fields)
            for name, read, values in columns:
                part = fields.get(name)
                value = None if part is None else read(part)
                if value is WRONG or (type(part) is str and _is_cut(part, kinds[name])):
                    said, kind = json_text(part)[:100], arrow_type(kinds[name])
                    raise self.broken(f"has `{said}` in row {row}, column `{name}`: no {kind}")
                values.append(value)
        for name in sorted(kinds.keys() - known) if lines else ():
            raise self.broken(f"has no field `{name}` in any row; it has {', '.join(known)}")
        arrays = [pa.array(values, arrow_type(kinds[name])) for name, _, values in columns]
        return pa.table(arrays, names=list(kinds))

    def _of_texts(self, texts: pa.Table, typed: Mapping[str, pa.DataType]) -> pa.Table:
        if all(map(pa.types.is_string, typed.values())):
            return texts.select(list(typed))
        for name in (name for name, kind in typed.items() if pa.types.is_binary(kind)):
            raise self.broken(f"has the column `{name}`, and text of CSV is no binary")
        values: list[str] = []
        wrong: list[str] = []
        # By numbers: `ID` and `id` are one name to DuckDB.
        for place, kind in enumerate(typed.values()):
            value = _in_sql(f"_{place}", kind)
            values.append(f"{value} AS _{place}")
            wrong.append(f"WHEN _{place} IS NOT NULL AND {value} IS NULL THEN {place}")
        numbered = texts.select(list(typed)).rename_columns([f"_{at}" for at in range(len(typed))])
        rows = pa.array(range(1, texts.num_rows + 1), pa.int64())
        numbered = numbered.append_column("_row", rows)
        with duckdb_in_utc() as connection:
            connection.register("texts", numbered)
            first = connection.execute(
                f"SELECT _row, _place FROM (SELECT _row, CASE {' '.join(wrong)} END AS _place "
                "FROM texts) WHERE _place IS NOT NULL ORDER BY _row LIMIT 1"
            ).fetchone()
            if first:
                row, name = first[0], list(typed)[first[1]]
                said = texts.column(name)[row - 1].as_py()[:100]
                raise self.broken(f"has `{said}` in row {row}, column `{name}`: no {typed[name]}")
            found = connection.sql(f"SELECT {', '.join(values)} FROM texts").to_arrow_table()
        named = pa.table(found).rename_columns(list(typed))
        return named.cast(pa.schema(list(typed.items())))

    def _cast(self, column: Any, name: str, kind: pa.DataType) -> Any:
        found = column.type
        if pa.types.is_dictionary(found):
            column, found = column.cast(found.value_type), found.value_type
        if not _is_alike(found, kind):
            raise self.broken(
                f"has the column `{name}` of type {found}, and the pipeline's file says "
                f"{self.lookup.columns.get(name) or kind}"
            )
        try:
            if pa.types.is_decimal(kind) and pa.types.is_integer(found):
                # Else it asks for room for all values of the type.
                column = column.cast(pa.decimal128(20, 0))
            column = column.cast(kind)
            if pa.types.is_string(kind):
                # Arrow takes any bytes of a file for text.
                column.validate(full=True)
            return column
        except pa.ArrowInvalid as error:
            raise self.broken(
                f"has a value in column `{name}` that is no {kind}: {error}"
            ) from error


def _is_cut(text: str, kind: Kind) -> bool:
    """Is it of more digits than microseconds have, of which a source's lines lose the rest?"""
    return kind == SimpleKind("timestamp") and _FINER.search(text) is not None


def _in_sql(text: str, kind: pa.DataType) -> str:
    """The value of a text in DuckDB's SQL; null where it is none."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_decimal(kind):
        form = _DIGITS + (f"([.][0-9]{{1,{kind.scale}}})?" if kind.scale else "")
        of = f"DECIMAL({kind.precision}, {kind.scale})"
    else:
        form, of = _FORMS[kind]
    value, fits = f"TRY_CAST({text} AS {of})", f"regexp_full_match({text}, '{form}')"
    if pa.types.is_floating(kind):
        # Of a number that is too large it makes an infinite one.
        fits = f"{fits} AND isfinite({value})"
    return f"CASE WHEN {fits} THEN {value} END"


def _is_alike(found: pa.DataType, kind: pa.DataType) -> bool:
    """Is a column of one type of the other too, value by value, where each of them fits?"""
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    bytes_ = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return any(is_a(found) for is_a in (texts if pa.types.is_string(kind) else bytes_))
    if pa.types.is_integer(kind):
        return pa.types.is_integer(found)
    if pa.types.is_decimal(kind):
        return pa.types.is_decimal(found) or pa.types.is_integer(found)
    if pa.types.is_timestamp(kind):
        return pa.types.is_timestamp(found) and found.tz is not None
    if pa.types.is_float64(kind):
        return pa.types.is_floating(found) and not pa.types.is_float16(found)
    return bool(found == kind)
