"""Event time from what a line holds: ISO 8601, an epoch, or a stated Spark pattern.

Every function gives null where the text is not such a time, so that the caller can tell a
wrong type; none depends on the day on which it runs (Spark's own cast reads `12:01` as today).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.pipeline.model import EventTime

# Date and time of ISO 8601, extended format, of the years 1 to 9999; the zone is told apart by
# the patterns below. On the calendar's first and last day an offset could lead out of it.
_DAY = r"^(?!0000|0001-01-01|9999-12-31)\d{4}-\d{2}-\d{2}"
_CLOCK = r"[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r" ?([Zz]|[+-]\d{2}(:?\d{2})?)"
_ZONED = rf"{_DAY}{_CLOCK}{_ZONE}\z"
_UTC = r"^(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z\z"
_ZONELESS = rf"{_DAY}({_CLOCK})?\z"

_PER_SECOND = {"epoch_seconds": 1, "epoch_millis": 1_000, "epoch_micros": 1_000_000}
# From the year 1 to the year 9999.
_CALENDAR_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
# JSON type that the line is parsed with; a decimal keeps fractions of a second exactly.
EPOCH_TYPE = "decimal(38,9)"


def is_epoch(event_time: EventTime) -> bool:
    """True where the event time is a number since 1970."""
    return event_time.format in _PER_SECOND


def event_time_of(parsed: Column, event_time: EventTime) -> Column:
    """The event time (timestamp, microseconds) of what the line was parsed to."""
    if is_epoch(event_time):
        return _from_epoch(parsed, _PER_SECOND[event_time.format])
    if event_time.format == "iso8601":
        return iso_timestamp(parsed, event_time.zone)
    return _from_pattern(parsed, event_time)


def iso_timestamp(text: Column, zone: str | None) -> Column:
    """ISO 8601 text as a timestamp; text without a zone only where one is stated.

    Local time that the zone's clocks pass over is counted on (02:30 is an hour after 01:30);
    local time that they show twice is the earlier one.
    """
    # Spark reads `+0100`, a space before the zone, and minutes before a zone not: `00:00+01:00`.
    normal = F.regexp_replace(F.upper(text), r" ?([+-]\d{2}):?(\d{2})\z", "$1:$2")
    normal = F.regexp_replace(normal, r"^(.{10}[T ]\d{2}:\d{2})( ?[Z+-]|\z)", "$1:00$2")
    zoned = F.when(text.rlike(_UTC), F.try_to_timestamp(text)).otherwise(
        F.when(text.rlike(_ZONED), F.try_to_timestamp(normal))
    )
    if zone is None:
        return zoned
    local = F.when(text.rlike(_ZONELESS), F.try_to_timestamp(normal))
    return F.coalesce(zoned, F.to_utc_timestamp(local, zone))


def _from_epoch(number: Column, per_second: int) -> Column:
    micros = F.try_multiply(number, F.lit(1_000_000 // per_second))
    in_calendar = micros.between(*_CALENDAR_MICROS)
    return F.timestamp_micros(F.when(in_calendar, F.floor(micros)).try_cast("bigint"))


def _from_pattern(text: Column, event_time: EventTime) -> Column:
    parsed = F.try_to_timestamp(text, F.lit(event_time.format))
    if not _tells_zone(event_time.format):
        if event_time.zone is None:
            return F.lit(None).cast("timestamp")
        parsed = F.to_utc_timestamp(parsed, event_time.zone)
    return F.when(F.unix_micros(parsed).between(*_CALENDAR_MICROS), parsed)


def _tells_zone(pattern: str) -> bool:
    """True for a pattern with a zone letter (V, z, O, X, x, Z) outside quotes."""
    outside_quotes = "".join(pattern.split("'")[::2])
    return any(letter in outside_quotes for letter in "VzOXxZ")
