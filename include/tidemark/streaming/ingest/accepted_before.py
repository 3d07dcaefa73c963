"""Which accepted rows a batch is compared with: bronze, as far as its horizon reaches.

Bronze is partitioned by event date, and only the dates are read that lie within the horizon of
the batch's own dates, so that the cost follows the horizon and not the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import reduce
from heapq import nlargest
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# More ranges than this are joined across their smallest gaps: a filter of a thousand conditions
# costs more than the files that it spares.
_MOST_RANGES = 50
_DAY = timedelta(days=1) // timedelta(microseconds=1)
_FIRST_DAY = date(1970, 1, 1).toordinal()


def accepted_before(
    bronze: DataFrame, batch: int, not_read: Column, dates: Sequence[tuple[date, date]]
) -> DataFrame:
    """Bronze's rows of other batches on these dates, and those of the batch that are `not_read`:
    an earlier try of the batch took them, and their part of the source is not read now.
    """
    return bronze.where(_on(dates)).where((F.col("_batch") != batch) | not_read)


def dates_within(times: Iterable[tuple[int, int]], horizon_micros: int) -> list[tuple[date, date]]:
    """The dates, as ranges in order, within the horizon of some of these event times.

    `times` are the first and the last event time of each of the batch's dates, in microseconds
    since 1970. What lies between two dates that are far apart is in no range.
    """
    days = sorted(
        ((first - horizon_micros) // _DAY, (last + horizon_micros) // _DAY) for first, last in times
    )
    return [(_date(first), _date(last)) for first, last in _few(list(_joined(days)))]


def _joined(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges in order, as one where they meet."""
    current: tuple[int, int] | None = None
    for first, last in ranges:
        if current is None or first > current[1] + 1:
            if current is not None:
                yield current
            current = first, last
        else:
            current = current[0], max(current[1], last)
    if current is not None:
        yield current


def _few(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    pairs = enumerate(pairwise(ranges), start=1)
    gaps = [(after[0] - before[1], place) for place, (before, after) in pairs]
    cuts = sorted(place for _, place in nlargest(_MOST_RANGES - 1, gaps))
    for first, last in pairwise([0, *cuts, len(ranges)]):
        if first < last:
            yield ranges[first][0], ranges[last - 1][1]


def _date(day: int) -> date:
    """A day since 1970; where the calendar ends, its end."""
    return date.fromordinal(min(max(day + _FIRST_DAY, 1), date.max.toordinal()))


def _on(dates: Sequence[tuple[date, date]]) -> Column:
    day = F.col("_event_date")
    ranges = [day.between(F.lit(first), F.lit(last)) for first, last in dates]
    return reduce(lambda left, right: left | right, ranges, F.lit(False))
