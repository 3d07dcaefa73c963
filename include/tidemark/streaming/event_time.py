"""Event time from what a line holds: ISO 8601, an epoch, or a stated Spark pattern.

Every function gives null where the text is not such a time, so that the caller can tell a
wrong type; none depends on the day on which it runs (Spark's own cast reads `12:01` as today).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.pipeline.model import EventTime

# Date and time of ISO 8601, extended format; the zone is told apart by the two patterns below.
_DAY = r"^\d{4}-\d{2}-\d{2}"
_CLOCK = r"[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r" ?([Zz]|[+-]\d{2}(:?\d{2})?)"
_ZONED = f"{_DAY}{_CLOCK}{_ZONE}$"
_UTC = f"{_DAY}T\\d{{2}}:\\d{{2}}:\\d{{2}}(\\.\\d{{1,9}})?Z$"
_ZONELESS = f"{_DAY}({_CLOCK})?$"

_PER_SECOND = {"epoch_seconds": 1, "epoch_millis": 1_000, "epoch_micros": 1_000_000}
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
    """ISO 8601 text as a timestamp; text without a zone only where one is stated."""
    # Spark reads `+0100` and a space before the zone neither: bring them to `+01:00`.
    normal = F.regexp_replace(F.upper(text), r" ?([+-]\d{2}):?(\d{2})$", "$1:$2")
    zoned = F.when(text.rlike(_UTC), F.try_to_timestamp(text)).otherwise(
        F.when(text.rlike(_ZONED), F.try_to_timestamp(normal))
    )
    if zone is None:
        return zoned
    local = F.when(text.rlike(_ZONELESS), F.try_to_timestamp(text))
    return F.coalesce(zoned, F.to_utc_timestamp(local, zone))


def _from_epoch(number: Column, per_second: int) -> Column:
    micros = F.try_multiply(number, F.lit(1_000_000 // per_second))
    return F.timestamp_micros(F.floor(micros).try_cast("bigint"))


def _from_pattern(text: Column, event_time: EventTime) -> Column:
    parsed = F.try_to_timestamp(text, F.lit(event_time.format))
    if _tells_zone(event_time.format):
        return parsed
    if event_time.zone is None:
        return F.lit(None).cast("timestamp")
    return F.to_utc_timestamp(parsed, event_time.zone)


def _tells_zone(pattern: str) -> bool:
    """True for a pattern with a zone letter (V, z, O, X, x, Z) outside quotes."""
    outside_quotes = "".join(pattern.split("'")[::2])
    return any(letter in outside_quotes for letter in "VzOXxZ")
