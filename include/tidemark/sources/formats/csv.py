"""Files of comma-separated values: each record as the JSON line that it would be.

A field's text is null where the file has one of `nulls` without quotes, a number or `true` and
`false` where its column takes these and the text is one as JSON writes it (with `decimal: ","` with
a comma for the point), and text in any other case: so what is strict about a JSON line is so here,
and more is, as a text is never a number. What a column says of texts holds for numbers too.

Two ways come to the same. A record that a pattern proves is read by Arrow, many at once; any other
by `csv_records.fields_of`, which is the definition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.json_text import JSON_NUMBER
from tidemark.judge.rules import BLANKS_AROUND
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.reasons import MALFORMED
from tidemark.sources.files.slices import of_file
from tidemark.sources.formats.csv_form import BOOLEAN, NUMBER, CsvForm, CsvValue
from tidemark.sources.formats.csv_records import Fields, fields_of, records
from tidemark.sources.formats.json_values import NULL, lines_of_columns, quoted
from tidemark.sources.formats.whole_files import BadRecord, WholeFile, all_lines
from tidemark.sources.large_lines import LargeLine, bounded
from tidemark.sources.source import AS_READ, DETAIL, REASON, PartUnreadable, TypedRows
from tidemark.storage.files import FileFacts, Options

_TEXT = CsvValue("text")
# A pattern of more fields is too large for RE2.
_MOST_NAMES = 150


@dataclass(frozen=True)
class CsvSlice(WholeFile):
    """A whole file: where a quoted field may hold ends of lines, none of them says where a record
    begins."""

    form: CsvForm

    numbers_in_text = False

    def names(self, most_bytes: int) -> tuple[str, ...]:
        """The names of its fields; none where it has no record. Raises as `lines`."""
        reader = _RecordReader(self.part, self.form, most_bytes)
        for _ in reader.pieces(partial(self.text, self.form.encoding)):
            break
        return reader.names or ()

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        return all_lines(self.typed(most_bytes))

    def typed(self, most_bytes: int) -> Iterator[TypedRows]:
        reader = _RecordReader(self.part, self.form, most_bytes)
        for piece in reader.pieces(partial(self.text, self.form.encoding)):
            number = len(piece.rows)
            origin = pa.table(of_file(self.part, np.arange(reader.number - number, reader.number)))
            # With another point a text is no number yet.
            ask = np.full(number, piece.are_proven and self.form.decimal == ".")
            yield TypedRows(piece.rows, origin, ask, partial(_lines, piece, origin), are_texts=True)


def _lines(piece: _Piece, origin: pa.Table, places: Array | None) -> pa.Table:
    whence = origin if places is None else origin.take(places)
    for name, column in piece.lines(places).items():
        whence = whence.append_column(name, column)
    return whence


def header_of(names: Sequence[str], form: CsvForm) -> str:
    """The record that names these fields."""
    if not form.quote:
        return form.delimiter.join(names)
    before = form.escape or form.quote
    quoted = [name.replace(before, before * 2) if form.escape else name for name in names]
    inner = [name.replace(form.quote, before + form.quote) for name in quoted]
    return form.delimiter.join(f"{form.quote}{name}{form.quote}" for name in inner)


def line_of_record(record: bytes, form: CsvForm) -> tuple[bytes, str | None]:
    """A record of a file without a header as a JSON line, and why it is none. It may have the end
    of its line, which is no part of it."""
    if record.endswith(b"\n"):
        record = record[:-1].removesuffix(b"\r")
    fields = fields_of(record.decode(errors="replace"), form)
    if not isinstance(fields, str) and any("\n" in text and not q for text, q in fields):
        return record, "more than one record: a line ends outside of quotes"
    return _RecordReader("", form, 0)._by_itself(record)


def csv_slice(uri: str, facts: FileFacts, options: Options, form: CsvForm) -> CsvSlice:
    """A file as it is now."""
    return CsvSlice(uri, facts.size, epoch_ms(facts.modified), dict(options), form)


@dataclass(frozen=True)
class _Piece:
    """Records: a struct of texts each, where all are proven, and a function that makes lines of
    those at some places, in the columns of `Slice.lines` but the origin's."""

    rows: Array
    lines: Callable[[Array | None], Mapping[str, Array]]
    are_proven: bool = True


class _RecordReader:
    """The records of one file."""

    def __init__(self, part: str, form: CsvForm, most: int) -> None:
        self.part, self.form, self.most = part, form, most
        self.names: tuple[str, ...] | None = None if form.header else form.names
        self.number = 0

    def pieces(self, text: Callable[[], Iterator[bytes]]) -> Iterator[_Piece]:
        for piece in records(text, self.form, self.most):
            if self.names is None:
                rest = self._after_header(piece)
                if rest is None:
                    continue
                piece = rest
            self.number += 1 if isinstance(piece, BadRecord | LargeLine) else len(piece)
            if isinstance(piece, LargeLine):
                yield _as_lines(piece.columns(f"Record {self.number:,}", self.most))
            elif isinstance(piece, BadRecord):
                yield _as_lines(piece.columns())
            elif len(piece):
                yield self._read(piece)

    def _after_header(self, piece: Any) -> Array | None:
        """The records behind the first, whose fields become the names; None where there is none."""
        if isinstance(piece, BadRecord | LargeLine):
            why = piece.why if isinstance(piece, BadRecord) else "it is too large"
            raise PartUnreadable(self.part, f"Its header cannot be read: {why}")
        if not len(piece):
            return None
        try:
            found = fields_of(piece[0].as_py().decode(), self.form)
        except UnicodeDecodeError as error:
            raise PartUnreadable(self.part, f"Its header is not valid UTF-8 ({error})") from error
        if isinstance(found, str):
            raise PartUnreadable(self.part, f"Its header cannot be read: {found}")
        names = [name for name, _ in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PartUnreadable(self.part, f"Its header names {', '.join(twice)} twice")
        self.names = tuple(names)
        return piece.slice(1)

    def _read(self, lines: Array) -> _Piece:
        before = self.number - len(lines)
        held = dict(bounded(lines, self.most, lambda n: f"Record {before + n + 1:,}"))
        proven = self._proven(lines)
        if REASON not in held and pc.all(proven).as_py():
            columns = self._by_arrow(lines)
            if columns is not None:
                names = self.names or ()
                rows = pa.StructArray.from_arrays(columns, list(names))
                return _Piece(rows, partial(self._lines_of_proven, lines, columns))
        reasons = held.get(REASON, pa.nulls(len(lines), pa.string()))
        details = held.get(DETAIL, pa.nulls(len(lines), pa.string()))
        as_read, why = self._as_json(lines, proven)
        bad = pc.and_(pc.is_valid(why), pc.is_null(reasons))
        return _as_lines(
            {
                "_value": held["_value"],
                AS_READ: as_read,
                REASON: pc.if_else(bad, pa.scalar(MALFORMED), reasons),
                DETAIL: pc.if_else(bad, why, details),
            }
        )

    def _lines_of_proven(
        self, lines: Array, columns: Sequence[Array], places: Array | None
    ) -> Mapping[str, Array]:
        if places is None:
            return {"_value": lines, AS_READ: self._json_of_columns(columns)}
        taken = [column.take(places) for column in columns]
        return {"_value": lines.take(places), AS_READ: self._json_of_columns(taken)}

    def _json_of_columns(self, columns: Sequence[Array]) -> Array:
        names, form = self.names or (), self.form
        values = zip(columns, _values(names, form), strict=True)
        return lines_of_columns(names, [_column_as_json(one, of, form) for one, of in values])

    def _as_json(self, lines: Array, proven: Array) -> tuple[Array, Array]:
        """Each record as a JSON line; and why one is none."""
        columns = self._by_arrow(lines.filter(proven))
        fast = [] if columns is None else self._json_of_columns(columns).to_pylist()
        many: Iterator[bytes] = iter(fast)
        is_fast = [False] * len(lines) if columns is None else proven.to_pylist()
        found: list[bytes] = []
        why: list[str | None] = []
        for one, line in zip(is_fast, lines.to_pylist(), strict=True):
            text, reason = (next(many), None) if one else self._by_itself(line)
            found.append(text)
            why.append(reason)
        return pa.array(found, pa.binary()), pa.array(why, pa.string())

    def _by_itself(self, line: bytes) -> tuple[bytes, str | None]:
        if not line:
            return line, "blank line"
        try:
            found = fields_of(line.decode(), self.form)
        except UnicodeDecodeError:
            # The judge says that it is no UTF-8.
            return line, None
        names = self.names or ()
        if isinstance(found, str):
            return line, found
        if len(found) != len(names):
            of = "the header has" if self.form.header else "the pipeline's columns are"
            return line, f"{len(found):,} fields, {of} {len(names):,}"
        return json_of(names, found, self.form).encode(), None

    @cached_property
    def _pattern(self) -> str:
        """A record of so many fields as there are names, each in the plainest form; no character
        that JSON writes in another way but quotes and backslashes."""
        form, names = self.form, self.names or ()
        delimiter, quote = re.escape(form.delimiter), re.escape(form.quote)
        plain = rf"[^{delimiter}{quote}\x00-\x1f]*"
        field = (
            rf"(?:{plain}|{quote}(?:[^{quote}\x00-\x1f]|{quote}{quote})*{quote})"
            if quote
            else plain
        )
        return rf"^{field}(?:{delimiter}{field}){{{len(names) - 1}}}$"

    def _proven(self, lines: Array) -> Array:
        """Which records the pattern matches, but those that begin with a byte order mark: Arrow
        takes the mark off the first one that it reads."""
        form, names = self.form, self.names or ()
        none = pa.repeat(pa.scalar(False), len(lines))
        if form.escape or not 1 <= len(names) <= _MOST_NAMES:
            return none
        try:
            texts = lines.cast(pa.string())
        except pa.ArrowInvalid:
            return none
        matches = pc.match_substring_regex(texts, self._pattern)
        matches = pc.and_not(matches, pc.starts_with(texts, "\ufeff"))
        return pc.and_(matches, pc.greater(pc.binary_length(lines), 0))

    def _by_arrow(self, lines: Array) -> list[Array] | None:
        """The texts of proven records, by column; None where Arrow sees other rows than these."""
        names, form = self.names or (), self.form
        if not len(lines):
            return None
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        data = pc.binary_join(whole, b"\n")[0].as_py() + b"\n"
        keys = [str(place) for place in range(len(names))]
        rows = pcsv.read_csv(
            BytesIO(data),
            pcsv.ReadOptions(use_threads=False, column_names=keys, block_size=len(data) + 1),
            pcsv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote or False,
                double_quote=True,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            pcsv.ConvertOptions(
                column_types=dict.fromkeys(keys, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=list(form.nulls),
            ),
        )
        if len(rows) != len(lines):
            return None
        values = zip(rows.columns, _values(names, form), strict=True)
        return [_without_nulls(column.combine_chunks(), of) for column, of in values]


def _as_lines(columns: Mapping[str, Array]) -> _Piece:
    """Records that are lines alone."""

    def taken(places: Array | None) -> Mapping[str, Array]:
        if places is None:
            return columns
        return {name: one.take(places) for name, one in columns.items()}

    return _Piece(pa.nulls(len(columns["_value"])), taken, are_proven=False)


def json_of(names: Sequence[str], fields: Fields, form: CsvForm) -> str:
    """A record as a JSON object: the definition of what its texts are."""
    values = [
        f"{json.dumps(name, ensure_ascii=False)}: {_text_as_json(text, quoted, of, form)}"
        for name, of, (text, quoted) in zip(names, _values(names, form), fields, strict=True)
    ]
    return f"{{{', '.join(values)}}}"


def _values(names: Sequence[str], form: CsvForm) -> list[CsvValue]:
    known = dict(form.values)
    return [known.get(name, _TEXT) for name in names]


def _text_as_json(text: str, quoted: bool, of: CsvValue, form: CsvForm) -> str:
    if not quoted and text in form.nulls:
        return "null"
    text = text.strip(BLANKS_AROUND) if of.trim else text
    if text in of.nulls:
        return "null"
    if of.kind == NUMBER:
        number = _with_point(text, form)
        if number is not None and re.fullmatch(JSON_NUMBER, number, re.ASCII):
            return number
    if of.kind == BOOLEAN and text in ("true", "false"):
        return text
    return json.dumps(text, ensure_ascii=False)


def _with_point(text: str, form: CsvForm) -> str | None:
    if form.decimal == ".":
        return text
    return None if "." in text else text.replace(form.decimal, ".")


def _without_nulls(column: Array, of: CsvValue) -> Array:
    """Texts of a column without the blanks around them, and without those that are null."""
    texts = pc.utf8_trim(column, BLANKS_AROUND) if of.trim else column
    if not of.nulls:
        return texts
    nulls = pc.is_in(texts, value_set=pa.array(of.nulls, pa.string()))
    return pc.if_else(nulls, pa.scalar(None, pa.string()), texts)


def _column_as_json(column: Array, of: CsvValue, form: CsvForm) -> Array:
    """Texts of `_without_nulls` as JSON, as `_text_as_json` says."""
    found = quoted(column)
    if of.kind == NUMBER:
        numbers, fits = column, pc.match_substring_regex(column, f"^(?:{JSON_NUMBER})$")
        if form.decimal != ".":
            numbers = pc.replace_substring(column, form.decimal, ".")
            fits = pc.and_(
                pc.match_substring_regex(numbers, f"^(?:{JSON_NUMBER})$"),
                pc.invert(pc.match_substring(column, ".")),
            )
        found = pc.if_else(fits, numbers, found)
    elif of.kind == BOOLEAN:
        found = pc.if_else(pc.is_in(column, pa.array(["true", "false"])), column, found)
    return pc.coalesce(found, NULL)
