"""What a pipeline's file may say of a Kafka source, and the columns of a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime

from tidemark.pipeline.instants import utc_instant

KEY, TIME, HEADERS = "_key", "_kafka_time", "_headers"
HEADERS_TYPE = "array<struct<key:string,value:string>>"
# Columns that a file may declare beside the value's fields, each with the one type that it has.
TYPES = {KEY: "string", TIME: "timestamp", HEADERS: HEADERS_TYPE}
# Where a message lies: always in bronze, and known to expressions.
TOPIC, PARTITION, OFFSET = "_topic", "_partition", "_offset"
PLACE_TYPES = {TOPIC: "string", PARTITION: "int", OFFSET: "long"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Class org.apache.kafka.common.internals.Topic.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic(name: str) -> None:
    """ValueError where no topic of Kafka can have this name."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError("is no name of a topic: letters, digits, `.`, `_` and `-`, at most 249")


def check_pattern(pattern: str) -> None:
    """ValueError where it is no regular expression that Java and Python read alike."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    if "(?" in pattern or "\\p" in pattern or "&&" in pattern:
        raise ValueError("has a part that Java and Python read differently (`(?…`, `\\p`, `&&`)")


def check_starting(starting: str | dict[str, dict[int, int]]) -> None:
    """ValueError where it is none of earliest, latest, a time with its zone, and offsets."""
    if isinstance(starting, str) and starting not in ("earliest", "latest"):
        starting_time(starting)


def starting_time(text: str) -> datetime:
    """The time that `starting` names."""
    try:
        time = utc_instant(text)
    except ValueError as error:
        raise ValueError(f"is none of earliest, latest and a time: {error}") from error
    if time < _EPOCH:
        raise ValueError(
            "is before 1970, where Kafka's times begin; say `earliest` for all there is"
        )
    return time


def with_numbers(value: object) -> object:
    """Partitions as numbers: JSON and some YAML have text there, and `00` is none, which would take
    the place of `0`. A time as text: YAML has a type of its own for one without quotes."""
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, Mapping):
        return value
    return {
        topic: {
            int(partition)
            if isinstance(partition, str) and re.fullmatch("0|[1-9][0-9]{0,9}", partition)
            else partition: n
            for partition, n in offsets.items()
        }
        if isinstance(offsets, Mapping)
        else offsets
        for topic, offsets in value.items()
    }


def check_types(columns: Mapping[str, str]) -> None:
    """ValueError where one of the message's own columns has another type than it can have."""
    for name, found in columns.items():
        kind = TYPES[name]
        if re.sub(r"\s", "", found.lower()) != kind:
            raise ValueError(f"columns: {name} is of type {kind}, not {found}")
