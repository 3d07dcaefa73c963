"""What the durations of a pipeline file say together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import LONGEST_DAYS, LONGEST_RANGE
from tidemark.pipeline.problems import Problem
from tidemark.pipeline.sections import Section, duration, section
from tidemark.pipeline.yaml_file import Document, KeyPath

# A day by minutes. A row that is in more takes a run's memory, whoever sends it.
MOST_WINDOWS = 1_440
# So that one that ends in 1970 begins in a year that a date has.
LONGEST_WINDOW = timedelta(days=365_000)


def find_broken_times(document: Document, usable: Section) -> Iterator[Problem]:
    """Gaps and windows that are too long, windows that are too many; durations that do not fit the
    watermark's delay, none where the delay itself is wrong."""
    for name, table in section(usable, "tables").items():
        yield from _too_long(document, ("tables", name), table)
        yield from _windows_of_a_row(document, ("tables", name, "window"), section(table, "window"))
    delay = duration(section(usable, "watermark"), "delay")
    if delay is not None:
        yield from _max_future(document, section(section(usable, "source"), "event_time"), delay)
        yield from _keep(document, usable, delay)


def _too_long(document: Document, path: KeyPath, table: Section) -> Iterator[Problem]:
    """A rule of files: what a table was made with before there was one stays readable."""
    for part, key, longest in (
        ("window", "session", LONGEST_RANGE),
        ("fold", "timeout", LONGEST_RANGE),
        ("window", "length", LONGEST_WINDOW),
    ):
        asked = duration(section(table, part), key)
        if asked is not None and asked > longest:
            message = f"is longer than {duration_text(longest)}"
            given = str(section(table, part)[key])
            yield document.problem((*path, part, key), message, value=given)


def _windows_of_a_row(document: Document, path: KeyPath, window: Section) -> Iterator[Problem]:
    """The engine makes a copy of each row for each of its windows. A rule of files too."""
    length, slide = duration(window, "length"), duration(window, "slide")
    if not length or not slide or length / slide <= MOST_WINDOWS:
        return
    shortest = timedelta(seconds=math.ceil(length / MOST_WINDOWS / timedelta(seconds=1)))
    message = (
        f"puts each row into {math.ceil(length / slide):,} windows, and a run makes a copy for "
        f"each; at most {MOST_WINDOWS:,}: slide by {duration_text(shortest)} or more"
    )
    yield document.problem((*path, "slide"), message, value=str(window["slide"]))


def _max_future(document: Document, event_time: Section, delay: timedelta) -> Iterator[Problem]:
    future = duration(event_time, "max_future")
    if future is None or future <= delay or event_time.get("accept_early_close") is True:
        return
    message = (
        f"is above the watermark's delay ({duration_text(delay)}): an accepted early event "
        "would close windows before their time; lower it, or say `accept_early_close: true`"
    )
    path = ("source", "event_time", "max_future")
    yield document.problem(path, message, value=str(event_time["max_future"]))


def _keep(document: Document, usable: Section, delay: timedelta) -> Iterator[Problem]:
    keep = duration(usable, "keep")
    longest = _longest_window(section(usable, "tables"))
    # Not a sum, which may be longer than any duration that can be computed with.
    if keep is None or longest is None or keep - delay > longest:
        return
    message = (
        f"is not longer than the watermark's delay ({duration_text(delay)}) plus the longest "
        f"window ({duration_text(longest)}): windows would freeze while they are open"
    )
    yield document.problem(("keep",), message, value=str(usable["keep"]))


def _longest_window(tables: Section) -> timedelta | None:
    windows = (section(table, "window") for table in tables.values())
    lengths = map(_length, windows)
    return max((length for length in lengths if length is not None), default=None)


def _length(window: Section) -> timedelta | None:
    days = LONGEST_DAYS.get(window.get("calendar", "day")) if "zone" in window else None
    return duration(window, "length") if days is None else timedelta(days=days)
