"""How a sample's events follow upon each other: how late rows come, but for few exceptions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from tidemark.cli.new.column_types import MOST

_DELAYS = tuple(
    timedelta(minutes=minutes) for minutes in (10, 60, 24 * 60, 7 * 24 * 60, 30 * 24 * 60)
)
# One row in so many may come later than the delay: such rows are repaired.
_LATE_ONE_IN = 50
# At either end one row in so many says nothing of how far the others spread.
_FAR_OFF_ONE_IN = 100


@dataclass(frozen=True)
class Order:
    """What was seen of the rows' event times, in the order of the rows.

    `delay` is the smallest of some that nearly all rows keep; `disorder` is how far at most a row
    of those lay before one further up, and `spread` is from the first of their events to the last,
    but for a few at either end.
    The exceptions: `late` rows, that lay up to `latest` before one further up, and `ahead` rows,
    too few to be believed, that lie at least `ahead_by` after all others and made those late.
    """

    delay: timedelta
    disorder: timedelta
    spread: timedelta
    late: int = 0
    latest: timedelta = timedelta(0)
    ahead: int = 0
    ahead_by: timedelta = timedelta(0)


def order_of(instants: Sequence[datetime]) -> Order:
    """The order of these instants, one at least, with the smallest delay; of equal ones that with
    the fewest rows ahead. Pure."""
    best = _without(instants, 0)
    for ahead, gap in _gaps(instants):
        if best.delay == _DELAYS[0]:
            break
        found = _without(instants, ahead)
        if found.delay < best.delay and found.delay <= gap:
            best = found
    return best


def _gaps(instants: Sequence[datetime]) -> Iterator[tuple[int, timedelta]]:
    """So many newest instants lie so far after all others; fewest first."""
    ordered = sorted(instants, reverse=True)
    most = len(ordered) - math.ceil(MOST * len(ordered))
    for number in range(1, most + 1):
        gap = ordered[number - 1] - ordered[number]
        if gap >= _DELAYS[0]:
            yield number, gap


def _without(instants: Sequence[datetime], ahead: int) -> Order:
    """The order of the others where the newest ones, so many, are taken for mistakes."""
    ordered = sorted(instants)
    newest = ordered[len(ordered) - ahead - 1]
    rest = [instant for instant in instants if instant <= newest]
    behind = [so_far - instant for so_far, instant in zip(accumulate(rest, max), rest, strict=True)]
    kept = sorted(behind)[len(behind) - 1 - len(behind) // _LATE_ONE_IN]
    delay = next((delay for delay in _DELAYS if delay >= kept), _DELAYS[-1])
    in_time = sorted(instant for instant, by in zip(rest, behind, strict=True) if by <= delay)
    few = len(in_time) // _FAR_OFF_ONE_IN
    late = [by for by in behind if by > delay]
    return Order(
        delay,
        disorder=max(by for by in behind if by <= delay),
        spread=in_time[len(in_time) - 1 - few] - in_time[few],
        late=len(late),
        latest=max(late, default=timedelta(0)),
        ahead=ahead,
        ahead_by=ordered[-ahead] - newest if ahead else timedelta(0),
    )
