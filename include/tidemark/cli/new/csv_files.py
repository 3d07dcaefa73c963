"""How CSV files are written, by the look of their first records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from tidemark.cli.new.column_types import MOST
from tidemark.cli.new.event_times import time_format
from tidemark.judge.json_text import JSON_NUMBER
from tidemark.pipeline.model import CsvFormat
from tidemark.printed import shown
from tidemark.sources.files.codecs import FAULTS, unpacked
from tidemark.sources.formats.csv_form import CsvForm
from tidemark.storage.files import Options, read_chunks

# So much is looked at: bytes of a file, files, and records of the first one.
_HEAD, _MOST_FILES, _MOST_RECORDS = 1024 * 1024, 10, 200
_FORMS = {"double": re.compile(JSON_NUMBER, re.ASCII), "boolean": re.compile("true|false")}
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
    """What nine in ten texts are: `double`, `boolean` or `timestamp`, else `string`."""
    present = [text for text in texts if text]
    for kind, form in _FORMS.items():
        read = [one.translate(_SWAPPED) for one in present] if decimal == "," else present
        if present and sum(1 for one in read if form.fullmatch(one)) >= MOST * len(present):
            return kind
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
    # Arrow takes a tenth of a second to load, which other commands do without.
    from tidemark.sources.formats.csv_records import fields_of, records

    written = CsvForm(**form.model_dump())
    data = "\n".join(text.split("\n")[:_MOST_RECORDS]).encode()
    pieces = records(lambda: iter([data]), written, len(data))
    # What is no record is no array of lines.
    lines: list[bytes] = [line for one in pieces for line in getattr(one, "to_pylist", list)()]
    found = [fields_of(line.decode(), written) for line in lines if line]
    return [[one for one, _ in fields] for fields in found if isinstance(fields, list)]
