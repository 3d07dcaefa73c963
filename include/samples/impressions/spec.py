"""What to make, and the exact numbers that it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

SHARES = ("late", "malformed", "duplicates", "future")
MOST = 2**31  # of rows: products of two row numbers must fit into 64 bits


@dataclass(frozen=True)
class Spec:
    """What to make. Shares are of `rows`; what they leave is on time. Times carry a zone.

    On-time events lie between `start` and `start + span`; late ones of the first files may lie
    before it. `delay` is the watermark's delay of the pipeline that will read the files, `now`
    the time at which it will: future events lie at least a day after it.
    """

    seed: int
    rows: int
    files: int
    start: datetime
    span: timedelta
    now: datetime
    delay: timedelta = timedelta(minutes=10)
    spots: int = 100
    late: float = 0.0
    malformed: float = 0.0
    duplicates: float = 0.0
    future: float = 0.0
    gzip: bool = False


@dataclass(frozen=True)
class Plan:
    """Exact numbers of rows by kind; `ends[k]` is the number of rows up to and with file k."""

    spec: Spec
    late: int
    malformed: int
    duplicates: int
    future: int
    ends: tuple[int, ...]


def plan(spec: Spec) -> Plan:
    """Exact counts for a spec. Raises ValueError with all that is wrong with it."""
    problems = _number_problems(spec) + _time_problems(spec)
    if problems:
        raise ValueError("cannot generate: " + "; ".join(problems))
    counts = {name: _count(spec, name) for name in SHARES}
    ends = tuple(spec.rows * (file + 1) // spec.files for file in range(spec.files))
    on_time, room = spec.rows - sum(counts.values()), spec.rows - ends[0]
    if on_time < 1 or counts["late"] > room:
        raise ValueError(
            f"cannot generate: {counts} leave {on_time} of {spec.rows} rows on time, and the "
            f"files after the first have {room} rows; at least one row must be on time, and "
            "late rows must fit into the files after the first"
        )
    return Plan(spec, ends=ends, **counts)


def milliseconds(time: datetime | timedelta) -> int:
    """A length in whole milliseconds, or a time as milliseconds since 1970."""
    length = time - datetime.fromtimestamp(0, UTC) if isinstance(time, datetime) else time
    return length // timedelta(milliseconds=1)


def _number_problems(spec: Spec) -> list[str]:
    floors = {"seed": 0, "files": 1, "rows": spec.files, "spots": 1}
    found = [
        f"{name} is {getattr(spec, name)}, it must be from {least} to {MOST}"
        for name, least in floors.items()
        if not least <= getattr(spec, name) <= MOST
    ]
    return found + [
        f"{name} is {getattr(spec, name)}, a share is from 0 to 1"
        for name in SHARES
        if not 0 <= getattr(spec, name) <= 1
    ]


def _time_problems(spec: Spec) -> list[str]:
    found = [
        f"{name} is {length}, it cannot be negative"
        for name, length in (("span", spec.span), ("delay", spec.delay))
        if length < timedelta(0)
    ]
    if spec.start.tzinfo is None or spec.now.tzinfo is None:
        found.append("start and now need a zone, as in 2026-03-01T12:00:00Z")
    elif spec.start + spec.span > spec.now:
        end = spec.start + spec.span
        found.append(f"start + span is {end}, after now ({spec.now}): good rows would be future")
    return found


def _count(spec: Spec, name: str) -> int:
    share = Decimal(repr(getattr(spec, name)))  # as it was typed: 0.15 of 10 rows is 2, not 1
    return int((share * spec.rows).to_integral_value(ROUND_HALF_UP))
