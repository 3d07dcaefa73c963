"""Between which instants a batch's event times have to lie, and any time that a line can hold."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.instants import FIRST_MICROS, LAST_MICROS
from tidemark.judge.rules import Rules


@dataclass(frozen=True)
class TimeLimits:
    """Both ends are accepted; microseconds since 1970, UTC.

    The engine's watermark starts at 1970-01-01, so it would drop an earlier row as late: that is
    a reason of its own, and `oldest_micros` is 0 where nothing is too old.
    """

    oldest_micros: int
    newest_micros: int

    def outside(self, times: Array) -> Array:
        """Which of some event times are not within; null where there is none."""
        micros = times.cast(pa.int64())
        early = pc.less(micros, self.oldest_micros)
        return pc.or_(early, pc.greater(micros, self.newest_micros))


def time_limits(rules: Rules, batch_time_ms: int) -> TimeLimits:
    """The limits of a batch, from its own time, which is the same when it is repeated."""
    oldest = 0 if rules.keep_ms is None else max(0, (batch_time_ms - rules.keep_ms) * 1_000)
    newest = (batch_time_ms + rules.max_future_ms) * 1_000
    return TimeLimits(oldest, min(max(newest, FIRST_MICROS), LAST_MICROS))


_MICROS = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}


def outside_calendar(times: Array) -> Array:
    """Which of some days (date32) or timestamps, none in nanoseconds, are not of the years 1 to
    9999. Asked of their numbers: Arrow's `year` begins anew after 65,536 years."""
    kind = times.type
    unit, whole = (kind.unit, pa.int64()) if pa.types.is_timestamp(kind) else ("day", pa.int32())
    first, last = FIRST_MICROS // _MICROS[unit], LAST_MICROS // _MICROS[unit]
    numbers = times.view(whole)
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
