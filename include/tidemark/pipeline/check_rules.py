"""What the checks and views of a table say together with its columns: names, types, arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from tidemark.pipeline.checks import Gaps
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.expectations import expectation_faults
from tidemark.pipeline.expressions.kinds import BINARY, NESTED, Kind, kind_of_name
from tidemark.pipeline.expressions.names import KnownName, Scope, known_name, spark_type
from tidemark.pipeline.expressions.sql import check_row, measure_types
from tidemark.pipeline.fold_rules import NUMBER
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.join_rules import MATCHES
from tidemark.pipeline.model import LOCAL_DATE, RANK, CalendarTable, WindowTable, table_kind
from tidemark.pipeline.names import folded
from tidemark.pipeline.problems import Problem, nearest
from tidemark.pipeline.sections import Section, duration, section
from tidemark.pipeline.yaml_file import Document, KeyPath

# Columns that gold has in every pipeline.
_OF_GOLD = {
    "window_start": "timestamp",
    "window_end": "timestamp",
    "rows": "bigint",
    "status": "string",
    "revision": "bigint",
    "updated_by": "string",
    "window_date": "date",
}


def find_broken_checks(
    document: Document, path: KeyPath, table: Section, scope: Scope
) -> Iterator[Problem]:
    """The problems of a table's checks and views; `scope` holds the names of its source."""
    checks = table.get("checks")
    views = section(table, "views")
    if not isinstance(checks, list):
        checks = []
    if not checks and not views:
        return
    gold, kinds = _gold(table, scope)
    for name in views:
        yield from _view(document, (*path, "views", name), table, gold, kinds)
    for number, check in enumerate(checks):
        for kind in ("fail", "warn"):
            asked = check.get(kind) if isinstance(check, dict) else None
            place = (*path, "checks", number, kind)
            if isinstance(asked, str) and asked:
                yield from _row(document, place, asked, gold, kinds)
            elif isinstance(asked, dict) and "gaps" in asked:
                yield from _gaps(document, (*place, "gaps"), table, section(asked, "gaps"))
            elif isinstance(asked, dict) and len(asked) == 1:
                yield from _expectation(document, place, asked, kinds)
        where = check.get("where") if isinstance(check, dict) else None
        if isinstance(where, str) and where:
            yield from _row(document, (*path, "checks", number, "where"), where, gold, kinds)


def _gold(table: Section, scope: Scope) -> tuple[dict[str, KnownName], dict[str, Kind]]:
    """The names of gold's columns, and their types in Spark as far as they can be told."""
    found = {name: KnownName(name, spark_type(kind)) for name, kind in _OF_GOLD.items()}
    for key in table.get("group_by") or ():
        if isinstance(key, str) and (known := known_name(key, scope)):
            found[folded(key)] = KnownName(key, known.type)
    further: Section = {LOCAL_DATE: "date"} if table_kind(table) is CalendarTable else {}
    further |= {MATCHES: "bigint"} if "join" in table else {}
    further |= section(section(table, "fold"), "emits")
    further |= {NUMBER: "bigint"} if "fold" in table else {}
    for name, text in further.items():
        found[folded(name)] = KnownName(name, spark_type(text) if isinstance(text, str) else None)
    kinds = {known.name: kind_of_name(known) for known in found.values()}
    for name, expression in section(table, "measures").items():
        known_type, kinds[name] = measure_types(expression, scope)
        found[folded(name)] = KnownName(name, known_type)
    return found, kinds


def _row(
    document: Document, path: KeyPath, text: str, gold: Scope, kinds: Mapping[str, Kind]
) -> Iterator[Problem]:
    for fault in check_row(text, gold, kinds):
        yield document.problem(
            path, fault.message, value=text, nearest=fault.nearest, offset=fault.offset
        )


def _view(
    document: Document, path: KeyPath, table: Section, gold: Scope, kinds: Mapping[str, Kind]
) -> Iterator[Problem]:
    """What a view says together with gold's columns."""
    if table_kind(table) not in (WindowTable, CalendarTable):
        message = "is for tables over windows of a fixed length or of a calendar"
        yield document.problem(path, message, value=str(path[-1]), at_key=True)
        return
    view = section(section(table, "views"), str(path[-1]))
    having, top = view.get("having"), section(view, "top")
    if isinstance(having, str) and having:
        yield from _row(document, (*path, "having"), having, gold, kinds)
    if top and (taken := gold.get(RANK)):
        message = f"numbers its rows in a column `{RANK}`, which the table has: `{taken.name}`"
        yield document.problem((*path, "top"), message, at_key=True)
    by = top.get("by")
    if not isinstance(by, str):
        return
    known = known_name(by, gold)
    if known is None:
        near = nearest(by, [one.name for one in gold.values()])
        message = "is no column of gold, as a measure, a key and `rows` are"
        yield document.problem((*path, "top", "by"), message, value=by, nearest=near)
    elif kinds[known.name] in (NESTED, BINARY):
        message = f"is {kinds[known.name]}: nobody could say which value comes first"
        yield document.problem((*path, "top", "by"), message, value=by)


def _expectation(
    document: Document, path: KeyPath, asked: Section, kinds: Mapping[str, Kind]
) -> Iterator[Problem]:
    ((name, arguments),) = asked.items()
    if not isinstance(arguments, dict):
        return
    for fault in expectation_faults(name, arguments, kinds, str(path[-1])):
        if fault.argument is None:
            yield document.problem(
                (*path, name), fault.message, value=name, nearest=fault.nearest, at_key=True
            )
        else:
            place = (*path, name, fault.argument)
            yield document.problem(place, fault.message, nearest=fault.nearest, at_key=True)


def _gaps(document: Document, path: KeyPath, table: Section, asked: Section) -> Iterator[Problem]:
    """What gaps say together with the table's windows and keys."""
    window = section(table, "window")
    calendar = table_kind(table) is CalendarTable
    if "fold" in table or not (calendar or {*window} <= {"length", "slide", "offset"}):
        message = (
            "is for tables over windows of a fixed length or of a calendar: it is known when these "
            "should be"
        )
        yield document.problem(path, message, at_key=True)
        return
    if calendar and "every" in asked:
        message = "is for windows of a fixed length; of a calendar each window is asked for"
        yield document.problem((*path, "every"), message, at_key=True)
    yield from _gaps_by(document, path, table, asked)
    since = None
    # A value that is none is told already.
    with suppress(ValidationError):
        since = Gaps.model_validate({"since": asked.get("since")}).since
    if calendar:
        yield from _since_of_zone(document, (*path, "since"), window.get("zone"), since)
        return
    slide = duration(window, "slide") or duration(window, "length")
    offset = duration(window, "offset") or timedelta(0)
    every = duration(asked, "every")
    if slide and every and every % slide:
        message = f"is no multiple of {duration_text(slide)}, in which the table's windows begin"
        yield document.problem((*path, "every"), message, value=str(asked["every"]))
    if slide and since and (since - instant_of(0) - offset) % slide:
        begin = f"1970 and {duration_text(offset)}" if offset else "1970"
        message = (
            f"is no begin of a window: they begin every {duration_text(slide)}, from {begin} on"
        )
        yield document.problem((*path, "since"), message, value=f"{since:%Y-%m-%dT%H:%M:%SZ}")


def _since_of_zone(
    document: Document, path: KeyPath, zone: object, since: datetime | None
) -> Iterator[Problem]:
    """A date alone is midnight in UTC, and seldom the begin of a day elsewhere."""
    # A zone that is none is told already.
    with suppress(ValueError, ZoneInfoNotFoundError, OverflowError):
        of_zone = ZoneInfo(str(zone))
        if since and _on(since - timedelta.resolution, of_zone) == _on(since, of_zone):
            day = _on(since, of_zone)
            begin = datetime(day.year, day.month, day.day, tzinfo=of_zone)
            message = f"is no begin of a day in {zone}: {day} begins at {begin.isoformat()}"
            yield document.problem(path, message, value=f"{since:%Y-%m-%dT%H:%M:%SZ}")


def _on(instant: datetime, zone: ZoneInfo) -> date:
    return instant.astimezone(zone).date()


def _gaps_by(
    document: Document, path: KeyPath, table: Section, asked: Section
) -> Iterator[Problem]:
    by, keys = asked.get("by"), list(table.get("group_by") or ())
    named = [name for name in by if isinstance(name, str)] if isinstance(by, list) else []
    for number, name in enumerate(named):
        if name not in keys:
            message = f"is no key of the table; keys: {', '.join(keys) or 'none'}"
            near = nearest(name, keys)
            yield document.problem((*path, "by", number), message, value=name, nearest=near)
        elif name in named[:number]:
            yield document.problem((*path, "by", number), "stands twice", value=name)
