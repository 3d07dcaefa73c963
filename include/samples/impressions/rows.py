"""All rows of a plan, chunk by chunk, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samples.impressions.draw import COIN, DISORDER, LATENESS, ORIGINAL, Ints, below
from samples.impressions.kinds import DUPLICATE, FUTURE, LATE, ON_TIME, kinds_of
from samples.impressions.lines import lines_of
from samples.impressions.spec import Plan, Spec, milliseconds

CHUNK_ROWS = 32_768
POOL_ROWS = 256
DAY = 86_400_000  # milliseconds


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines of one file, with the kind and event time (ms) of each."""

    file: int
    kinds: Ints
    times: Ints
    lines: list[str]


@dataclass(frozen=True)
class _Pool:
    """The newest on-time rows so far: duplicates repeat them, late rows are late by them."""

    numbers: Ints
    times: Ints

    def keep(self, which: NDArray[np.bool_] | Ints) -> _Pool:
        return _Pool(self.numbers[which], self.times[which])

    def plus(self, numbers: Ints, times: Ints) -> _Pool:
        return _Pool(np.append(self.numbers, numbers), np.append(self.times, times))


def rows(plan: Plan) -> Iterator[Chunk]:
    """All chunks in file order, at most CHUNK_ROWS lines each; every file has at least one."""
    pool = _Pool(np.empty(0, np.int64), np.empty(0, np.int64))
    not_late = first = 0
    for file, end in enumerate(plan.ends):
        newest = int(pool.times.max()) if file else 0  # the first file has no late rows
        pool = pool.keep(pool.times >= newest - milliseconds(plan.spec.delay))
        while first < end:
            numbers = np.arange(first, min(first + CHUNK_ROWS, end), dtype=np.int64)
            kinds = kinds_of(plan, numbers, not_late)
            own = kinds == ON_TIME
            sources, times = numbers.copy(), _times(plan.spec, numbers, kinds, newest)
            known = pool.plus(numbers[own], times[own])
            again = np.flatnonzero(kinds == DUPLICATE)
            original = _originals(plan.spec.seed, numbers, own, again, len(pool.times))
            sources[again], times[again] = known.numbers[original], known.times[original]
            yield Chunk(file, kinds, times, lines_of(plan.spec, sources, times, kinds))
            pool = known.keep(np.argsort(known.times, kind="stable")[-POOL_ROWS:])
            not_late += int(np.count_nonzero(kinds != LATE))
            first += len(numbers)


def _times(spec: Spec, numbers: Ints, kinds: Ints, newest: int) -> Ints:
    """Event times of all but duplicates; `newest` is the newest of the earlier files."""
    times, delay = _on_time(spec, numbers), milliseconds(spec.delay)
    late, future = kinds == LATE, kinds == FUTURE
    times[late] = newest - delay - 1 - below(spec.seed, LATENESS, numbers[late], delay + 1)
    beyond = below(spec.seed, LATENESS, numbers[future], 30 * DAY)
    times[future] = milliseconds(spec.now) + DAY + beyond
    return times


def _on_time(spec: Spec, numbers: Ints) -> Ints:
    """Evenly over the span in the order of the rows, less up to a quarter of the delay."""
    start, (whole, part) = milliseconds(spec.start), divmod(milliseconds(spec.span), spec.rows)
    even = start + numbers * whole + numbers * part // spec.rows
    disorder = below(spec.seed, DISORDER, numbers, milliseconds(spec.delay) // 4 + 1)
    times: Ints = np.maximum(even - disorder, start)
    return times


def _originals(seed: int, numbers: Ints, own: NDArray[np.bool_], again: Ints, pooled: int) -> Ints:
    """For each duplicate an index into the pool followed by the chunk's on-time rows.

    Half come from each: the pool reaches into earlier files, the chunk mostly does not. Of the
    chunk only rows before the duplicate are taken.
    """
    before = np.searchsorted(np.flatnonzero(own), again)
    in_chunk = below(seed, ORIGINAL, numbers[again], np.maximum(before, 1))
    in_pool = below(seed, ORIGINAL, numbers[again], max(pooled, 1))
    heads = below(seed, COIN, numbers[again], 2) == 1
    index: Ints = np.where((before > 0) & (heads | (pooled == 0)), pooled + in_chunk, in_pool)
    return index
