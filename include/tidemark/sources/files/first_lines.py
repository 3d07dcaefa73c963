"""The first records of files, copied, for a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.errors import SampleUnusable
from tidemark.pipeline.model import CsvFormatOptions, FilesSource
from tidemark.pipeline.reasons import TOO_LARGE
from tidemark.pipeline.source_files import plain_name
from tidemark.sources.files.lines import first_lines
from tidemark.sources.formats.formats import (
    AVRO,
    CSV,
    JSON_DOCUMENT,
    JSON_LINES,
    PARQUET,
    csv_form,
    format_of,
)
from tidemark.sources.source import DETAIL, REASON, FirstRows, PartUnreadable
from tidemark.storage.files import Options, stat_files

if TYPE_CHECKING:
    import pyarrow as pa

_AS_LINES = (PARQUET, AVRO)
# Its text, and the detail of its reject.
_Record = tuple[bytes, str | None]


def copy_first_lines(
    source: FilesSource,
    places: Iterable[str],
    options: Options,
    most: int,
    most_bytes: int,
    folder: Path,
) -> FirstRows:
    """Copy the first `most` records of these files, each to a file of its own below `folder`: as
    they stand, but unpacked and in UTF-8; rows of Parquet and Avro as the JSON lines that they are
    judged as. Of records of more than `most_bytes` there is a note instead."""
    taken, used, notes = 0, 0, []
    for number, place in enumerate(places):
        if taken == most:
            break
        kind = format_of(source.format, place)
        name = plain_name(place) + (".json" if kind in _AS_LINES else "")
        target = folder / f"{number:06}" / name
        target.parent.mkdir(parents=True)
        try:
            pieces = first_lines(source, place, options, most - taken, most_bytes)
            if kind == JSON_DOCUMENT:
                # Arrow takes a tenth of a second to load, which a Dag file has not.
                from tidemark.sources.formats.json_document import document_of

                copied, large = _copy(pieces, target, document_of)
            else:
                header = _header(source, place, options, most_bytes)
                lines = partial(_lines, header, kind == CSV)
                copied, large = _copy(pieces, target, lines)
        except SampleUnusable as error:
            notes.append(str(error))
            continue
        notes += [f"Left out of {place}, where a run rejects it: {one}." for one in large]
        taken, used = taken + copied, used + 1
    entries: dict[str, Any] = {"files": f"{folder.name}/**/*"}
    if isinstance(source.format, CsvFormatOptions):
        in_utf8 = source.format.csv.model_copy(update={"encoding": "utf-8"})
        entries["format"] = {"csv": in_utf8.model_dump(mode="json")}
    elif source.format is not None:
        entries["format"] = JSON_LINES if source.format in _AS_LINES else source.format
    return FirstRows(entries, taken, used, "line", "file", tuple(notes))


def _header(source: FilesSource, place: str, options: Options, most_bytes: int) -> bytes:
    """The first record of a CSV file that has one, with its end; else nothing."""
    if format_of(source.format, place) != CSV or not (form := csv_form(source, place)).header:
        return b""
    # Arrow takes a tenth of a second to load, which a Dag file has not.
    from tidemark.sources.formats.csv import csv_slice, header_of

    facts = stat_files([place], options)[place]
    try:
        names = csv_slice(place, facts, options, form).names(most_bytes) if facts else ()
    except PartUnreadable as error:
        raise SampleUnusable(f"{place}: {error.cause}.") from error
    return f"{header_of(names, form)}\n".encode()


def _lines(header: bytes, is_csv: bool, records: Iterable[_Record]) -> Iterator[bytes]:
    yield header
    for text, _ in records:
        # A record of CSV may end with both, which would take the text's own last character too.
        yield text + (b"\r\n" if is_csv and text.endswith(b"\r") else b"\n")


def _copy(
    pieces: Iterator[pa.Table],
    target: Path,
    written: Callable[[Iterable[_Record]], Iterator[bytes]],
) -> tuple[int, list[str]]:
    """Copy records as they are `written`: how many, and what is said of those that are too large.
    Where one cannot be read, none of the file is left."""
    count, rejected = 0, []

    def records() -> Iterator[_Record]:
        nonlocal count
        for piece in pieces:
            lines = piece.to_pydict()
            nothing = [None] * len(piece)
            reasons, details = lines.get(REASON, nothing), lines.get(DETAIL, nothing)
            for line, reason, detail in zip(lines["_value"], reasons, details, strict=True):
                if reason == TOO_LARGE:
                    rejected.append(detail)
                    continue
                count += 1
                yield line, detail

    try:
        with target.open("wb") as out:
            out.writelines(written(records()))
    except SampleUnusable:
        target.unlink()
        raise
    return count, rejected
