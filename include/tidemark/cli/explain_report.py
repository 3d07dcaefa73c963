"""The story of a row of gold for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from tidemark.cli.console import ReportTable, report_console, report_table, shortened
from tidemark.recompute.differences import plain
from tidemark.story.story import (
    BronzeRow,
    CheckSaid,
    Rejected,
    RowPlace,
    RowsOfInput,
    RowValue,
    Story,
    measures_of,
)

# Of late rows and rejects; all of the sample stands in --json.
_SHOWN = 10
_LONGEST = 120
_LONGEST_END = 40
_YES_OR_NO = {True: "yes", False: "no", None: "not known"}


def print_story(story: Story) -> None:
    """Print all of it, of its rows the first ones."""
    console = report_console()
    for part in _parts(story):
        console.print(part)


def _parts(story: Story) -> Iterator[str | ReportTable]:
    key = "".join(f", {name} {_text(value)}" for name, value in story.key.items())
    end = f" to {plain(story.window_end)}" if story.window_end else ""
    start = plain(story.window_start)
    yield f"{story.pipeline}, {story.table} ({story.rows_are}): {start}{end}{key}"
    yield _shown_by_gold(story.gold)
    if story.values:
        yield "\nIts values, oldest first:"
        yield _values_table(story.values)
        told = (f"{one.run}: {one.reason} ({one.by})" for one in story.values if one.reason)
        yield from dict.fromkeys(told)
    for rows in story.bronze:
        yield from _bronze(rows)
    if story.rejected is not None:
        yield from _rejected(story.rejected)
    if story.checks:
        yield from _checks(story.checks)
    for one in story.accepted:
        yield (
            f"\nChanges by hand of {one.table} up to version {one.up_to:,} were accepted by "
            f"{one.by} ({one.reason})."
        )
    for note in (*story.notes, *([story.checked.said] if story.checked else [])):
        yield f"\n{note}"


def _shown_by_gold(gold: Mapping[str, Any] | None) -> str:
    if gold is None:
        return "Gold has no such row."
    revision = f", revision {gold['revision']}" if gold.get("revision") else ""
    return f"Gold shows {_values(measures_of(gold))}: {gold['status']}{revision}, by " + (
        f"{gold['updated_by']}."
    )


def _values_table(values: Sequence[RowValue]) -> ReportTable:
    """A row for each value, as it differs from the one before."""
    table = report_table("when", "cause", "run", "in gold", ">late", "~value")
    for before, value in pairwise([None, *values]):
        assert value is not None
        when = plain(value.at) if value.at else "not known"
        told = f"undone by {value.undone}" if value.undone else _YES_OR_NO[value.published]
        late = f"{value.late:,}" if value.late else ""
        unsure = "" if value.in_order else " (its place among these is not known)"
        differing = f"{_differing(value, before)}{unsure}"
        table.add_row(when, value.cause, value.run or "–", told, late, differing)
    return table


def _differing(value: RowValue, before: RowValue | None) -> str:
    if value.failure:
        return f"a measure fails: {shortened(value.failure, _LONGEST)}"
    if not value.rows:
        return "gone"
    now = {**measures_of(value.values), "rows": value.rows}
    if before is None or not before.values:
        return _values(now)
    then = {**measures_of(before.values), "rows": before.rows}
    told = [
        f"{name} {_text(then[name])} → {_text(of)}" if name in then else f"{name} {_text(of)}"
        for name, of in now.items()
        if name not in then or then[name] != of
    ]
    return ", ".join(told) or "the same"


def _bronze(rows: RowsOfInput) -> Iterator[str | ReportTable]:
    what = "Rows of bronze" if rows.input == "bronze" else f"Rows of {rows.input} that match"
    if not rows.number:
        yield f"\n{what}: none"
        return
    late = "how many came late is not known" if rows.late is None else f"{rows.late:,} came late"
    yield f"\n{what}: {rows.number:,}, {plain(rows.first)} to {plain(rows.last)}; {late}"
    parts = [f"{_end_of(part)} {number:,}" for part, number in rows.parts]
    parts += [f"others {rows.other_parts:,}"] if rows.other_parts else []
    if parts:
        yield f"  {', '.join(parts)}"
    if rows.late_sample:
        yield "Late ones:"
        yield _rows_table(rows.late_sample)
    if in_time := [row for row in rows.sample if not row.late]:
        yield f"{'The first of the others' if rows.late else 'The first rows'}:"
        yield _rows_table(in_time)


def _rows_table(rows: Sequence[BronzeRow]) -> ReportTable:
    """Rows of bronze: when, by which batch and run, out of which line or offset."""
    table = report_table("event time", ">batch", "run", "where", "~values")
    for row in rows[:_SHOWN]:
        batch = "–" if row.batch is None else f"{row.batch:,}"
        others = {name: of for name, of in row.values.items() if of != row.event_time}
        values = shortened(_values(others), _LONGEST)
        table.add_row(_time(row.event_time), batch, row.run or "–", _where(row.place), values)
    return table


def _rejected(rejected: Rejected) -> Iterator[str | ReportTable]:
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in rejected.reasons.items())
    more = ""
    if rejected.without_time:
        more = f"; {rejected.without_time:,} of its batches have no time that could be read"
    yield f"\nRejected in its time, of whatever key: {reasons or 'none'}{more}"
    if not rejected.sample:
        return
    table = report_table("event time", "reason", "of the key", "where", "~text")
    for row in rejected.sample[:_SHOWN]:
        text = shortened(row.raw or row.detail, _LONGEST)
        of_key, where = _YES_OR_NO[row.of_key], _where(row.place)
        table.add_row(_time(row.event_time), row.reason, of_key, where, text)
    yield table


def _checks(checks: Sequence[CheckSaid]) -> Iterator[str | ReportTable]:
    """How many passed, and those that did not, or that somebody overrode."""
    of_runs = Counter(one.run for one in checks if one.passed)
    passed = ", ".join(f"{run} {number}" for run, number in of_runs.items())
    yield f"\nChecks that passed, by run: {passed or 'none'}"
    table = report_table("run", "check", "severity", "accepted by", "~observed")
    for one in (one for one in checks if not one.passed or one.accepted):
        by = f"{one.accepted_by} ({one.accepted})" if one.accepted else ""
        table.add_row(one.run, one.check, one.severity, by, one.observed)
    if table.styles:
        yield table


def _where(place: RowPlace) -> str:
    """Where a row comes from, as short as it can be told: of a file the end of its name."""
    origin = {n.lstrip("_"): of for n, of in place.origin.items() if of is not None}
    file, at = origin.pop("file", None), origin.pop("place", None)
    told = []
    if {"topic", "partition", "offset"} <= origin.keys():
        told = [f"{origin.pop('topic')}/{origin.pop('partition')}:{origin.pop('offset')}"]
    elif file is not None:
        byte = "" if at is None else f", byte {at:,}"
        record = f", record {place.record}" if place.record else byte
        told = [f"{_end_of(str(file))}{f':{place.line}' if place.line else record}"]
    told += [f"{name} {of}" for name, of in origin.items()]
    unknown = f" ({place.unknown})" if place.unknown else ""
    return f"{', '.join(told)}{unknown}"


def _end_of(name: str) -> str:
    """The end of a place's name: what it begins with is the same of most."""
    name = name.partition("://")[2] or name
    return name if len(name) <= _LONGEST_END else f"…{name[1 - _LONGEST_END :]}"


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return shortened(str(plain(value)), _LONGEST)


def _time(value: datetime | None) -> str:
    return "–" if value is None else str(plain(value))
