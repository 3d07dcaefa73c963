"""Which format a file has, as the pipeline says or the file's name does, and what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemark.pipeline.model import CsvFormat, CsvFormatOptions, FilesSource
from tidemark.pipeline.source_files import plain_name
from tidemark.sources.formats.csv_form import BOOLEAN, NUMBER, CsvForm, CsvValue

if TYPE_CHECKING:
    from tidemark.sources.source import Slice
    from tidemark.storage.files import FileFacts, Options

JSON_LINES, JSON_DOCUMENT, CSV = "json_lines", "json_document", "csv"
PARQUET, AVRO = "parquet", "avro"
# Ends of names, without those that say how the file is packed.
_BY_NAME = {".csv": CSV, ".tsv": CSV, ".parquet": PARQUET, ".avro": AVRO}


def format_of(said: str | CsvFormatOptions | None, place: str) -> str:
    """The format of a file, by its place."""
    if said is not None:
        return CSV if isinstance(said, CsvFormatOptions) else said
    name = plain_name(place).lower()
    return next((kind for end, kind in _BY_NAME.items() if name.endswith(end)), JSON_LINES)


def csv_form(source: FilesSource, place: str) -> CsvForm:
    """How a CSV file of the pipeline is written; one whose name says `.tsv` has tabs, where the
    pipeline does not say what it has."""
    said = source.format
    tabs = plain_name(place).lower().endswith(".tsv")
    given = CsvFormat(delimiter="\t") if tabs else CsvFormat()
    given = said.csv if isinstance(said, CsvFormatOptions) else given
    # Arrow takes a tenth of a second to load, which a Dag file has not.
    from tidemark.judge.event_time import EPOCH_POWERS
    from tidemark.judge.kinds import INTEGER_BITS, DecimalKind, kind_of

    # A sample of which a pipeline is yet to be made has none.
    time = getattr(source, "event_time", None)
    values = []
    for name, column in source.columns.items():
        kind = kind_of(column.type)
        simple = getattr(kind, "name", "")
        is_number = isinstance(kind, DecimalKind) or simple in (*INTEGER_BITS, "float", "double")
        is_epoch = time is not None and time.column == name and time.format in EPOCH_POWERS
        if not (is_number or is_epoch or simple == "boolean"):
            continue
        what = BOOLEAN if simple == "boolean" else NUMBER
        nulls = source.nulls if column.nulls is None else column.nulls
        values.append((column.path(name)[0], CsvValue(what, column.trim, nulls)))
    names = tuple(column.path(name)[0] for name, column in source.columns.items())
    return CsvForm(**given.model_dump(), values=tuple(values), names=names)


def slices_of(source: FilesSource, uris: Mapping[str, FileFacts], options: Options) -> list[Slice]:
    """The slices of these files as they are now, in their order."""
    # Arrow takes a tenth of a second to load, which a Dag file has not.
    from tidemark.sources.files.slices import file_slices
    from tidemark.sources.formats.avro import avro_slice
    from tidemark.sources.formats.csv import csv_slice
    from tidemark.sources.formats.json_document import document_slice
    from tidemark.sources.formats.parquet import parquet_slice

    found: list[Slice] = []
    for uri, facts in uris.items():
        kind = format_of(source.format, uri)
        if kind == CSV:
            found.append(csv_slice(uri, facts, options, csv_form(source, uri)))
        elif kind == JSON_DOCUMENT:
            found.append(document_slice(uri, facts, options))
        elif kind == PARQUET:
            found.append(parquet_slice(uri, facts, options))
        elif kind == AVRO:
            found.append(avro_slice(uri, facts, options))
        else:
            assert kind == JSON_LINES, kind
            found += file_slices({uri: facts}, options)
    return found
