"""The rows of a sample: the first lines of its files, those that are one JSON object."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tidemark.cli.new.column_types import MOST
from tidemark.cli.new.event_times import time_format
from tidemark.cli.new.schemas import KnownType, schema_of_files
from tidemark.errors import SampleUnusable
from tidemark.judge.json_text import JSON_NUMBER
from tidemark.pipeline.model import Column, CsvFormat, CsvFormatOptions, FilesSource, Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.printed import counted, shown
from tidemark.sources.files.codecs import FAULTS, unpacked
from tidemark.sources.files.lines import first_lines
from tidemark.sources.formats.csv_form import CsvForm
from tidemark.sources.formats.formats import CSV, JSON_DOCUMENT, JSON_LINES, csv_form, format_of
from tidemark.sources.source import AS_READ, REASON
from tidemark.storage.files import Options, read_chunks

if TYPE_CHECKING:
    import pyarrow as pa

MOST_LINES = 10_000
_SHOWN = 60

Row = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Rows in the order in which they came, by which a pipeline is proposed.

    `looked_at` counts all that were looked at, also what is no row, and `as_lines` has all of it as
    a run of a pipeline reads it (the columns of `Slice.lines`): what becomes of it is for the judge
    to say. `row` is what people call one.

    `schema` has the types of the columns by name, where the source tells them; None: the column's
    values have to. `beside` are columns that rows may have beside their own fields, with a value
    for each row. `entries` of a pipeline's `source` say how the rows are written, `reasons` are
    comments on them. `by_place`: fields have no names, so that each has to be a column.
    `numbers_in_text` is that of a slice of them.
    """

    rows: tuple[Row, ...]
    looked_at: int
    as_lines: Callable[[Pipeline], Sequence[pa.Table]] = field(repr=False)
    row: str = "line"
    schema: Mapping[str, KnownType | None] | None = None
    beside: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    by_place: bool = False
    numbers_in_text: bool = True

    @property
    def label(self) -> str:
        """How many were looked at, for people."""
        first = "the first " if self.looked_at == MOST_LINES else ""
        return f"{first}{counted(self.looked_at, self.row)}"


@dataclass(frozen=True)
class SourceSample:
    """What `--from` names, with the first rows that lie there: `source` are the entries of a
    pipeline's `source` that say where rows come from; `reasons` are comments on them."""

    source: Mapping[str, Any]
    sample: Sample
    reasons: tuple[str, ...] = ()


def read_sample(places: Iterable[str], settings: Settings) -> Sample:
    """The first MOST_LINES records of these files. SampleUnusable where hardly any is a row."""
    files = list(places)
    source, reasons = _source(files, settings)
    pieces = _pieces(source, files, settings)
    values = [line for piece in pieces for line in piece["_value"].to_pylist()]
    lines = [line for line in values if line is not None]
    rows = rows_of(pieces)
    if _hardly_any(rows, lines) and files and format_of(source.format, files[0]) == JSON_LINES:
        document = FilesSource.model_construct(format=JSON_DOCUMENT, columns={})
        found = _pieces(document, files, settings)
        values = [line for piece in found for line in piece["_value"].to_pylist()]
        records = [line for line in values if line is not None]
        if not _hardly_any(rows_of(found), records):
            source, lines, rows = document, records, rows_of(found)
    if _hardly_any(rows, lines):
        raise SampleUnusable(f"{_without_rows(files, lines, len(rows))} Nothing was written.")
    written = source.format
    csv = written.csv if isinstance(written, CsvFormatOptions) else None
    said = {"csv": csv.model_dump(exclude_defaults=True)} if csv else written

    def as_lines(pipeline: Pipeline) -> Sequence[pa.Table]:
        assert isinstance(pipeline.source, FilesSource)
        return _pieces(pipeline.source, files, settings)

    looked_at = {str(one): None for piece in pieces for one in piece["_file"].to_pylist()}
    schema = schema_of_files(looked_at, settings.storage_options)
    in_text = not files or format_of(written, files[0]) != CSV
    return Sample(
        rows, len(lines), as_lines, schema=schema, entries={"format": said} if said else {},
        reasons=reasons, by_place=csv is not None and not csv.header, numbers_in_text=in_text,
    )  # fmt: skip


def _hardly_any(rows: Sequence[Row], lines: Sequence[bytes]) -> bool:
    return 2 * len(rows) <= len([line for line in lines if line.strip()])


def _source(files: Sequence[str], settings: Settings) -> tuple[FilesSource, tuple[str, ...]]:
    """How the files are written, and of CSV which columns are numbers or booleans: those of which
    nine in ten texts are; and the reasons."""
    plain = FilesSource.model_construct(format=None, columns={})
    if not files or format_of(None, files[0]) != CSV:
        return plain, ()
    usual = csv_form(plain, files[0]).delimiter
    form, names, told = look_at_csv(files, usual, settings.storage_options)
    written = None if form == CsvFormat(delimiter=usual) else CsvFormatOptions(csv=form)
    columns = {name: Column(type="string") for name in names}
    source = FilesSource.model_construct(format=written, columns=columns)
    texts: dict[str, list[str]] = defaultdict(list)
    for row in rows_of(_pieces(source, files, settings)):
        for name, value in row.items():
            texts[name] += [] if value is None else [value]
    typed = {name: Column(type=kind_of(one, form.decimal)) for name, one in texts.items()}
    return FilesSource.model_construct(format=written, columns=typed), tuple(told)


def _pieces(source: FilesSource, files: Sequence[str], settings: Settings) -> list[pa.Table]:
    pieces: list[pa.Table] = []
    options, most_bytes = settings.storage_options, settings.max_line_bytes
    try:
        for place in files:
            if left := MOST_LINES - sum(map(len, pieces)):
                pieces += first_lines(source, place, options, left, most_bytes)
    except SampleUnusable as error:
        raise SampleUnusable(f"{error} Nothing was written.") from error
    return pieces


def rows_of(pieces: Iterable[pa.Table]) -> tuple[Row, ...]:
    """The objects of those lines that are one, and that the source's kind does not reject."""
    read: list[Row | None] = []
    for piece in pieces:
        columns = piece.to_pydict()
        values = columns.get(AS_READ, columns["_value"])
        reasons = columns.get(REASON, [None] * len(piece))
        read += [
            row_of(value)
            for value, reason in zip(values, reasons, strict=True)
            if value is not None and reason is None
        ]
    return tuple(row for row in read if row is not None)


def row_of(line: bytes) -> Row | None:
    """The line's object, None where it is none: what a proposal is made of, no verdict."""
    try:
        found = json.loads(
            line.decode(), object_pairs_hook=_without_twins, parse_constant=_no_number
        )
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_twins(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands twice")
    return found


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _without_rows(files: list[str], lines: list[bytes], rows: int) -> str:
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        return f"{name}: no line holds anything. Take a file that has rows."
    other = next(line for line in lines if line.strip() and row_of(line) is None)
    shown = other[:_SHOWN].decode(errors="replace")
    if rows:
        having = f"has {len(lines):,} lines, of which {rows:,} are one JSON object; the first other"
    else:
        having = "has no line that is one JSON object; the first"
    return f"{name} {having} is `{shown}`. A source is JSON lines, one object a line."


# So much is looked at: bytes of a file, files, and records of the first one.
_HEAD, _MOST_FILES, _MOST_RECORDS = 1024 * 1024, 10, 200
_FORMS = {"double": re.compile(JSON_NUMBER, re.ASCII), "boolean": re.compile("true|false")}
# Of whole numbers some of which are so these are codes, no powers of ten.
_WHOLE, _WITH_E = re.compile(r"-?\d+", re.ASCII), re.compile(r"\d+[eE]\d+", re.ASCII)
_SWAPPED = str.maketrans(".,", ",.")
# The comma of a decimal: none that may part thousands.
_COMMA = re.compile(r"-?(0,\d+|\d+,(\d\d?|\d{4,}))", re.ASCII)


def look_at_csv(
    files: Sequence[str], usual: str, options: Options
) -> tuple[CsvFormat, list[str], list[str]]:
    """How the files seem to be written, their fields' names where no record has them, and what
    people are told; `usual` is the delimiter that the files' own names say."""
    heads = [_head(file, options) for file in files[:_MOST_FILES]]
    encoding, told = _encoding(heads)
    text = heads[0].decode(encoding, "replace").removeprefix("\ufeff")
    found: list[tuple[int, int, CsvFormat, list[list[str]]]] = []
    # A file's own comments come first; further down such a line may be a broken record.
    for comment in ("", "#") if text.startswith("#") else ("",):
        for delimiter in ";\t|,":
            form = CsvFormat(delimiter=delimiter, comment=comment, encoding=encoding)
            records = _records(text, form)
            width = len(records[0]) if records else 0
            fitting = sum(1 if len(one) == width else -1 for one in records) if width > 1 else 0
            found.append((fitting, width, form, records))
    fitting, width, form, records = max(found, key=lambda one: one[:2])
    if fitting < 2:
        form = CsvFormat(delimiter=usual, encoding=encoding)
        records = _records(text, form)
    records = [one for one in records if len(one) == len(records[0])]
    if len(records) < 2:
        return form, [], told
    told += ["Lines that begin with # are no records."] if form.comment else []
    first, columns = records[0], list(zip(*records[1:], strict=True))
    numbers = [column for column in columns if kind_of(column, ",") == "double"]
    commas = [one for column in numbers for one in column if _COMMA.fullmatch(one)]
    if commas and form.delimiter != ",":
        form = form.model_copy(update={"decimal": ","})
        told.append(f"Numbers are written with a comma, as `{commas[0]}`.")
    kinds = [kind_of(column, form.decimal) for column in columns]
    typed = [(one, kind) for one, kind in zip(first, kinds, strict=True) if kind != "string"]
    same = sum(kind_of([one], form.decimal) == kind for one, kind in typed)
    other = sum(one != "" and kind_of([one], form.decimal) != kind for one, kind in typed)
    record = shown(", ".join(first)[:80])
    if same and not other:
        told.append(
            f"The first record (`{record}`) was not taken as names, for it is like the others: the "
            "columns are c1, c2 … Rename them, but keep their order."
        )
        names = [f"c{number + 1}" for number in range(len(first))]
        return form.model_copy(update={"header": False}), names, told
    if same or not other:
        told.append(
            f"First record taken as names: `{record}`. If it is a row, say `header: false` in "
            "`format: {csv: …}`, and name a column for each field, in their order."
        )
    return form, [], told


def kind_of(texts: Sequence[str], decimal: str) -> str:
    """What nine in ten texts are: `double`, `boolean` or `timestamp`, else `string`, as whole
    numbers are of which some are written as `12e3`."""
    present = [text for text in texts if text]
    for kind, form in _FORMS.items():
        read = [one.translate(_SWAPPED) for one in present] if decimal == "," else present
        fitting = [one for one in read if form.fullmatch(one)]
        if present and len(fitting) >= MOST * len(present):
            codes = [one for one in fitting if not _WHOLE.fullmatch(one)]
            return "string" if codes and all(map(_WITH_E.fullmatch, codes)) else kind
    return "timestamp" if time_format(present) else "string"


def _head(file: str, options: Options) -> bytes:
    """Its first lines, unpacked; none where they cannot be read, which reading them tells."""
    with suppress(*FAULTS):
        head = next(filter(None, unpacked(file, read_chunks(file, options))), b"")
        return head if len(head) < _HEAD else head[:_HEAD].rpartition(b"\n")[0]
    return b""


def _encoding(heads: Sequence[bytes]) -> tuple[str, list[str]]:
    """UTF-8, or what files are in none of whose lines beyond ASCII are it; and what is told."""
    if heads[0].startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", ["The file begins as one in UTF-16 does."]
    lines = [line for head in heads for line in head.splitlines() if not line.isascii()]
    read = [line.decode("windows-1252", "replace") for line in lines]
    are_utf8 = any("\ufffd" not in line.decode(errors="replace") for line in lines)
    if not lines or are_utf8 or any("\ufffd" in line for line in read):
        return "utf-8", []
    return "windows-1252", [
        f"No UTF-8, so windows-1252 is assumed: is `{shown(read[0][:80])}` right?"
    ]


def _records(text: str, form: CsvFormat) -> list[list[str]]:
    """The texts of the first records that are whole."""
    from tidemark.sources.formats.csv_records import fields_of, records

    written = CsvForm(**form.model_dump())
    data = "\n".join(text.split("\n")[:_MOST_RECORDS]).encode()
    pieces = records(lambda: iter([data]), written, len(data))
    # What is no record is no array of lines.
    lines: list[bytes] = [line for one in pieces for line in getattr(one, "to_pylist", list)()]
    found = [fields_of(line.decode(), written) for line in lines if line]
    return [[one for one, _ in fields] for fields in found if isinstance(fields, list)]
