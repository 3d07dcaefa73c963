"""Numbers that are missing between others, as ranges: a stray file may have any number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise


def missing_ranges(present: Iterable[int], first: int, last: int) -> tuple[range, ...]:
    """The numbers from `first` to `last`, both included, that are not `present`."""
    there = sorted(number for number in set(present) if first <= number <= last)
    edges = [first - 1, *there, last + 1]
    found = (range(a + 1, b) for a, b in pairwise(edges))
    return tuple(one for one in found if one)


def numbers_of(ranges: Iterable[range], at_most: int) -> Iterator[int]:
    """The first numbers of some ranges."""
    return islice(chain.from_iterable(ranges), at_most)


def count_of(ranges: Iterable[range]) -> int:
    """How many numbers some ranges have."""
    # `len` takes no more than a long.
    return sum(max(0, one.stop - one.start) for one in ranges)
