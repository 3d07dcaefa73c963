"""`--from delta:TABLE`: the schema and the first rows of a Delta table."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.cli.new.found import Found
from tidemark.cli.new.places import place_in_source
from tidemark.cli.new.sample import MOST_LINES, Sample, row_of
from tidemark.errors import SampleUnusable, SourceNotFound
from tidemark.pipeline.places import Places
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.sources.source import PartUnreadable

if TYPE_CHECKING:
    from tidemark.sources.delta.offsets import Offset
    from tidemark.sources.delta.table import SourceTable

_MOST_SHOWN = 5


def sampled_table(given: str, settings: Settings, pipeline: str) -> Found:
    """The table at a path or URI, with its schema and the first rows that a run would read."""
    # delta-rs, which other commands do without.
    from tidemark.sources.delta.table import open_table

    if not given:
        raise SampleUnusable("A table is named delta:TABLE, by its path or its URI.")
    try:
        named = place_in_source(given, settings)
    except ValueError as error:
        raise SampleUnusable(f"It {error}") from error
    uri = Places(settings.root, pipeline).source(named)
    try:
        table = open_table(uri, settings.storage_options)
    except SourceNotFound:
        raise SampleUnusable(_no_table(uri)) from None
    offset, further, reasons = _readable(table)
    return Found({"delta": {"table": named, **further}}, _sample(table, offset), reasons)


def _readable(table: SourceTable) -> tuple[Offset, dict[str, Any], tuple[str, ...]]:
    """What of the table a first run can read, how the pipeline's file says that, and why: a run
    stops at versions that change rows, and at files that VACUUM removed."""
    from tidemark.sources.delta.planning import CHANGED, first_offset, lost_of_start

    whole = first_offset(table, "earliest")
    lost = lost_of_start(table, whole, (), skips=False)
    gone = [one for one in lost if one.reason != CHANGED]
    begin = max((one.part.last or one.part.version for one in gone), default=-1) + 1
    changed = [one.part for one in lost if one.reason == CHANGED and one.part.version >= begin]
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


def _sample(table: SourceTable, offset: Offset) -> Sample:
    from tidemark.cli.new.table_schema import schema_of
    from tidemark.sources.delta.files import files_of, slice_of

    slices = (slice_of(table, part, file, MOST_LINES) for part, file in files_of(table, offset))
    pieces = chain.from_iterable(one.lines() for one in slices)
    lines = chain.from_iterable(piece["_value"].to_pylist() for piece in pieces)
    try:
        first = [line for line in islice(lines, MOST_LINES) if line is not None]
    except PartUnreadable as error:
        raise SampleUnusable(
            f"Its file {error.part} cannot be read: {error.cause}. Restore the file, or begin the "
            "pipeline behind it (source.delta.starting)."
        ) from error
    rows = tuple(row for line in first if (row := row_of(line)) is not None)
    if not rows:
        since = f" from version {offset.begin} on" if offset.begin else ""
        raise SampleUnusable(
            f"The table {table.uri} has no row that a run would read{since}: that takes rows that "
            "are appended. Try again when it has some."
        )
    return Sample(
        rows,
        len(first) - len(rows),
        row="row",
        fault="With NaN or an infinite number",
        schema=schema_of(table.now),
    )


def _no_table(uri: str) -> str:
    told = f"There is no Delta table {uri}: a folder with a `_delta_log`."
    if not is_local(uri):
        return f"{told} Name one that is there; keys of its store stand in the settings."
    place = Path(local_path(uri))
    near = nearest(place.name, [one.parent.name for one in place.parent.glob("*/_delta_log")])
    hint = f" Did you mean {place.parent / near}?" if near else ""
    return f"{told}{hint} Name one that is there."
