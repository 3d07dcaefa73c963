"""A row's event time from what its line holds, in microseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from tidemark.judge.instants import epoch_micros, iso_micros
from tidemark.judge.json_text import Number
from tidemark.judge.numbers import is_quoted_number
from tidemark.judge.pattern_times import PatternReader
from tidemark.pipeline.model import EventTime

# By format: how many powers of ten more microseconds there are.
EPOCH_POWERS = {"epoch_seconds": 6, "epoch_millis": 3, "epoch_micros": 0}
ISO = "iso8601"


def stated_zone(event_time: EventTime) -> ZoneInfo | None:
    """The zone of text that has none, where the pipeline states one."""
    return None if event_time.zone is None else ZoneInfo(event_time.zone)


def text_reader(event_time: EventTime) -> Callable[[str], int | None]:
    """A function from an event time's text to its instant; None where it is no such time.

    Of an epoch: from the text of a number, in quotes or not.
    """
    if event_time.format in EPOCH_POWERS:
        power = EPOCH_POWERS[event_time.format]
        return lambda text: epoch_micros(text, power) if is_quoted_number(text) else None
    zone = stated_zone(event_time)
    if event_time.format == ISO:
        return lambda text: iso_micros(text, zone)
    return PatternReader(event_time.format, zone).micros


def event_time_reader(event_time: EventTime) -> Callable[[Any], int | None]:
    """A function from a part of a line to its instant, None where it is no such time: a number
    stands for an epoch only."""
    read = text_reader(event_time)
    takes_numbers = event_time.format in EPOCH_POWERS

    def read_part(part: Any) -> int | None:
        if takes_numbers and type(part) is Number:
            return read(part.decode())
        return read(part) if type(part) is str else None

    return read_part


def zone_question(event_time: EventTime) -> Callable[[Any], bool]:
    """A function that tells of a part which is no event time: would it be one, if the pipeline
    stated a zone?"""
    if event_time.format in EPOCH_POWERS or event_time.zone is not None:
        return lambda part: False
    read = text_reader(event_time.model_copy(update={"zone": "UTC"}))
    return lambda part: type(part) is str and read(part) is not None
