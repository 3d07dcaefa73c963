"""`--from delta:TABLE`: the schema and the first rows of a Delta table."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.cli.new.places import place_in_source
from tidemark.cli.new.sample import MOST_LINES, Sample, SourceSample, rows_of
from tidemark.cli.new.schemas import KnownType, known_type, struct_of
from tidemark.errors import SampleUnusable, SourceNotFound
from tidemark.pipeline.places import Places
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.reasons import CHANGED_ROWS
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import is_uri
from tidemark.sources.source import PartUnreadable

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from tidemark.sources.delta.offsets import Offset
    from tidemark.sources.delta.table import SourceTable

_MOST_SHOWN = 5


def schema_of(table: DeltaTable) -> dict[str, KnownType | None]:
    """By column, in the table's order."""
    fields = json.loads(table.schema().to_json())["fields"]
    return {one["name"]: known_type(_ddl(one["type"]), bool(one["nullable"])) for one in fields}


def _ddl(kind: Any) -> str:
    """Of a type as Delta writes it (its protocol, "Schema Serialization Format")."""
    if isinstance(kind, str):
        return "int" if kind == "integer" else kind
    match kind["type"]:
        case "array":
            return f"array<{_ddl(kind['elementType'])}>"
        case "map":
            return f"map<{_ddl(kind['keyType'])},{_ddl(kind['valueType'])}>"
    return struct_of({one["name"]: _ddl(one["type"]) for one in kind["fields"]})


def sampled_table(given: str, settings: Settings, pipeline: str) -> SourceSample:
    """The table at a path or URI, with its schema and the first rows that a run would read."""
    if not given:
        raise SampleUnusable("A table is named delta:TABLE, by its path or its URI.")
    named, table = _found_table(given, settings, pipeline)
    offset, further, reasons = _readable(table)
    return SourceSample(
        {"delta": {"table": named, **further}}, _sample(table, offset, settings), reasons
    )


def _found_table(given: str, settings: Settings, pipeline: str) -> tuple[str, SourceTable]:
    """The table, and how `source.delta.table` names it: a path counts from the root, as it does
    there, or from this folder, as that of a file does."""
    from tidemark.sources.delta.table import open_table

    places = Places(settings.root, pipeline)
    tables: dict[str, tuple[str, SourceTable]] = {}
    names, unnamed = _names(given, settings)
    for named in names:
        uri = places.source(named)
        with suppress(SourceNotFound):
            table = open_table(uri, settings.storage_options)
            tables.setdefault(_place(uri), (named, table))
    if not tables:
        raise SampleUnusable(unnamed or _no_table([places.source(named) for named in names]))
    if len(tables) > 1:
        both = " and ".join(tables)
        raise SampleUnusable(f"{given} names two tables, {both}: name one by its whole path.")
    return tables.popitem()[1]


def _names(given: str, settings: Settings) -> tuple[list[str], str | None]:
    """Which values of a source's `table` may be meant, and why the path from this folder is
    none."""
    below = os.path.normpath(given)
    outside = is_uri(given) or below.startswith(("/", "~", ".."))
    from_root = [] if outside else [below]
    try:
        return list(dict.fromkeys([*from_root, place_in_source(given, settings)])), None
    except ValueError as error:
        return from_root, f"It {error}"


def _place(uri: str) -> str:
    return os.path.realpath(local_path(uri)) if is_local(uri) else uri


def _readable(table: SourceTable) -> tuple[Offset, dict[str, Any], tuple[str, ...]]:
    """The offset that a first run can read from, how the pipeline's file says that, and why: a
    run stops at versions that change rows, and at files that VACUUM removed."""
    from tidemark.sources.delta.planning import first_offset, lost_of_start

    whole = first_offset(table, "earliest")
    lost = lost_of_start(table, whole, (), skips=False)
    gone = [one for one in lost if one.reason != CHANGED_ROWS]
    begin = max((one.part.last or one.part.version for one in gone), default=-1) + 1
    changed = [one.part for one in lost if one.reason == CHANGED_ROWS and one.part.version >= begin]
    further: dict[str, Any] = {}
    reasons: list[str] = []
    if gone:
        further["starting"] = begin
        reasons.append(
            f"What the table held before version {begin} is not read, for not all of it is there "
            f"as it was appended: {gone[-1].what}."
        )
    if changed:
        further["changes"] = "skip"
        shown = ", ".join(map(str, changed[:_MOST_SHOWN]))
        reasons.append(
            "Versions that changed rows which were there are passed over, with all that they "
            f"wrote, and a reject tells so: {shown}"
            f"{' …' if len(changed) > _MOST_SHOWN else ''}. `changes: stop` would stop at them."
        )
    offset = replace(whole, begin=begin, snapshot=None) if gone else whole
    return offset, further, tuple(reasons)


def _sample(table: SourceTable, offset: Offset, settings: Settings) -> Sample:
    from tidemark.sources.delta.files import files_of, slice_of

    slices = (slice_of(table, part, file, MOST_LINES) for part, file in files_of(table, offset))
    first: list[pa.Table] = []
    left = MOST_LINES
    try:
        for piece in chain.from_iterable(one.lines(settings.max_line_bytes) for one in slices):
            first.append(piece.slice(0, left))
            left -= len(first[-1])
            if not left:
                break
    except PartUnreadable as error:
        raise SampleUnusable(
            f"Its file {error.part} cannot be read: {error.cause}. Restore the file, or begin the "
            "pipeline behind it (source.delta.starting)."
        ) from error
    rows = rows_of(first)
    if not rows:
        since = f" from version {offset.begin} on" if offset.begin else ""
        raise SampleUnusable(
            f"The table {table.uri} has no row that a run would read{since}: that takes rows that "
            "are appended. Try again when it has some."
        )
    looked_at = sum(map(len, first))
    return Sample(rows, looked_at, lambda _: first, row="row", schema=schema_of(table.now))


def _no_table(uris: Sequence[str]) -> str:
    near = {uri: found for uri in uris if (found := _near(uri))}
    example = next(iter(near), uris[-1])
    nor = "".join(f" There is none at {uri} either." for uri in uris if uri != example)
    hint = f" Did you mean {near[example]}?" if example in near else ""
    keys = "" if is_local(example) else "; keys of its store stand in the settings"
    return (
        f"There is no Delta table {example}: a folder with a `_delta_log`.{hint}{nor} "
        f"Name one that is there{keys}."
    )


def _near(uri: str) -> Path | None:
    """The table beside a local place whose name is most like its own."""
    if not is_local(uri):
        return None
    place = Path(local_path(uri))
    near = nearest(place.name, [one.parent.name for one in place.parent.glob("*/_delta_log")])
    return place.parent / near if near else None
