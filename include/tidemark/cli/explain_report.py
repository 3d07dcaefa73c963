"""The story of a row of gold for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tidemark.cli.console import ReportTable, report_console, report_table, shortened
from tidemark.recompute.differences import plain
from tidemark.story.story import (
    BronzeRow,
    CheckSaid,
    Rejected,
    RejectedRow,
    RowPlace,
    RowsOfInput,
    RowValue,
    Story,
)

# Of late rows and rejects; all of the sample stands in --json.
SHOWN = 10
_LONGEST = 120
_LONGEST_END = 40
_BESIDE = ("window_end", "local_date", "status", "revision", "updated_by")


def print_story(story: Story) -> None:
    """Print all of it, of its rows the first ones."""
    console = report_console()
    for line in _head(story):
        console.print(line)
    if story.values:
        console.print("\nIts values, oldest first:")
        console.print(values_table(story.values))
    for rows in story.bronze:
        console.print("")
        for line in _rows_lines(rows):
            console.print(line)
        if rows.late_sample:
            console.print(rows_table(rows.late_sample[:SHOWN]))
        in_time = [row for row in rows.sample if not row.late][:SHOWN]
        if in_time:
            console.print(f"{'The first rows' if not rows.late else 'The first of the others'}:")
            console.print(rows_table(in_time))
    if story.rejected is not None:
        console.print("")
        console.print(_rejected_line(story.rejected))
        if story.rejected.sample:
            console.print(rejected_table(story.rejected.sample[:SHOWN]))
    if story.checks:
        console.print("")
        console.print(_checks_line(story.checks))
        told = [one for one in story.checks if not one.passed or one.accepted]
        if told:
            console.print(checks_table(told))
    for one in story.accepted:
        console.print(
            f"\nChanges by hand of {one.table} up to version {one.up_to:,} were accepted by "
            f"{one.by} ({one.reason})."
        )
    for note in story.notes:
        console.print(f"\n{note}")
    if story.checked is not None:
        console.print(f"\n{story.checked.said}")


def _head(story: Story) -> Iterator[str]:
    key = "".join(f", {name} {_text(value)}" for name, value in story.key.items())
    end = f" to {_time(story.window_end)}" if story.window_end else ""
    yield (
        f"{story.pipeline}, {story.table} ({story.rows_are}): {_time(story.window_start)}{end}{key}"
    )
    if story.gold is None:
        yield "Gold has no such row."
        return
    gold = story.gold
    revision = f", revision {gold['revision']}" if gold.get("revision") else ""
    values = {name: value for name, value in gold.items() if name not in _BESIDE}
    yield f"Gold shows {_values(values)}: {gold['status']}{revision}, by {gold['updated_by']}."


def values_table(values: Sequence[RowValue]) -> ReportTable:
    """A row for each value, as it differs from the one before."""
    table = report_table("when", "cause", "run", "in gold", ">late", "~value")
    before: RowValue | None = None
    for value in values:
        when = _time(value.at) if value.at else "not known"
        told = _undone(value) or {True: "yes", False: "no", None: "not known"}[value.published]
        late = f"{value.late:,}" if value.late else ""
        table.add_row(when, value.cause, value.run or "–", told, late, _differing(value, before))
        before = value
    return table


def _undone(value: RowValue) -> str | None:
    return f"undone by {value.undone}" if value.undone else None


def _differing(value: RowValue, before: RowValue | None) -> str:
    unsure = "" if value.in_order else " (its place among these is not known)"
    if value.failure:
        return f"a measure fails: {shortened(value.failure, _LONGEST)}{unsure}"
    if not value.rows:
        return f"gone{unsure}"
    now = {**_own(value.values), "rows": value.rows}
    if before is None or not before.values:
        return f"{_values(now)}{unsure}"
    then = {**_own(before.values), "rows": before.rows}
    told = [
        f"{name} {_text(then[name])} → {_text(of)}" if name in then else f"{name} {_text(of)}"
        for name, of in now.items()
        if name not in then or then[name] != of
    ]
    return f"{', '.join(told) or 'the same'}{unsure}"


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _BESIDE}


def _rows_lines(rows: RowsOfInput) -> Iterator[str]:
    what = "Rows of bronze" if rows.input == "bronze" else f"Rows of {rows.input} that match"
    if not rows.number:
        yield f"{what}: none"
        return
    late = "how many came late is not known" if rows.late is None else f"{rows.late:,} came late"
    yield f"{what}: {rows.number:,}, {_time(rows.first)} to {_time(rows.last)}; {late}"
    parts = [f"{shortened_end(part)} {number:,}" for part, number in rows.parts]
    if rows.other_parts:
        parts.append(f"others {rows.other_parts:,}")
    if parts:
        yield f"  {', '.join(parts)}"
    if rows.late_sample:
        yield "Late ones:"


def rows_table(rows: Sequence[BronzeRow]) -> ReportTable:
    """Rows of bronze: when, by which batch and run, out of which line or offset."""
    table = report_table("event time", ">batch", "run", "where", "~values")
    for row in rows:
        batch = "–" if row.batch is None else f"{row.batch:,}"
        others = {name: of for name, of in row.values.items() if of != row.event_time}
        values = shortened(_values(others), _LONGEST)
        table.add_row(_time(row.event_time), batch, row.run or "–", where(row.place), values)
    return table


def rejected_table(rows: Sequence[RejectedRow]) -> ReportTable:
    """Rejected rows, with why."""
    table = report_table("event time", "reason", "of the key", "where", "~text")
    for row in rows:
        of_key = {True: "yes", False: "no", None: "not known"}[row.of_key]
        text = shortened(row.raw or row.detail, _LONGEST)
        table.add_row(_time(row.event_time), row.reason, of_key, where(row.place), text)
    return table


def checks_table(checks: Sequence[CheckSaid]) -> ReportTable:
    """Checks that did not pass, and who overrode them."""
    table = report_table("run", "check", "severity", "accepted by", "~observed")
    for one in checks:
        by = f"{one.accepted_by} ({one.accepted})" if one.accepted else ""
        table.add_row(one.run, one.check, one.severity, by, one.observed)
    return table


def _rejected_line(rejected: Rejected) -> str:
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in rejected.reasons.items())
    more = ""
    if rejected.without_time:
        more = f"; {rejected.without_time:,} of its batches have no time that could be read"
    return f"Rejected in its time, of whatever key: {reasons or 'none'}{more}"


def _checks_line(checks: Sequence[CheckSaid]) -> str:
    of_runs = Counter(one.run for one in checks if one.passed)
    passed = ", ".join(f"{run} {number}" for run, number in of_runs.items())
    return f"Checks that passed, by run: {passed or 'none'}"


def where(place: RowPlace) -> str:
    """Where a row comes from, as short as it can be told: of a file the end of its name."""
    origin = {n.lstrip("_"): of for n, of in place.origin.items() if of is not None}
    file, at = origin.pop("file", None), origin.pop("place", None)
    if {"topic", "partition", "offset"} <= origin.keys():
        told = f"{origin.pop('topic')}/{origin.pop('partition')}:{origin.pop('offset')}"
    elif place.line is not None:
        told = f"{shortened_end(str(file))}:{place.line}"
    elif place.record is not None:
        told = f"{shortened_end(str(file))}, record {place.record}"
    else:
        byte = f", byte {at:,}" if at is not None else ""
        told = f"{shortened_end(str(file))}{byte}" if file is not None else ""
    others = "".join(f", {name} {of}" for name, of in origin.items())
    unknown = f" ({place.unknown})" if place.unknown else ""
    return f"{told}{others}{unknown}".removeprefix(", ")


def shortened_end(text: str) -> str:
    """The end of a place's name: what it begins with is the same of most."""
    name = text.partition("://")[2] or text
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
