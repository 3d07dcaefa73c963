"""Random numbers that are a function of seed, purpose and row number.

Splitmix64 rather than numpy's generators, whose methods may give other numbers in another
version, and which would have to be run from the first row to know the last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

# What a draw is for.
ID, SPOT, AGENT, DISORDER, LATENESS, ORIGINAL, COIN = range(1, 8)
CLICKED, WAITED, LATE_CLICK, COST = range(8, 12)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def draw(seed: int, purpose: int, numbers: Ints) -> Bits:
    """64 random bits for each row number; for one seed and purpose no two are the same."""
    base = _mix(_mix(np.array([seed], np.uint64)) + np.uint64(purpose))
    return _mix(numbers.astype(np.uint64) * _STEP + base)


def below(seed: int, purpose: int, numbers: Ints, limit: int | Ints) -> Ints:
    """A random integer from 0 to limit - 1 for each row number."""
    return (draw(seed, purpose, numbers) >> np.uint64(1)).astype(np.int64) % limit


def _mix(bits: Bits) -> Bits:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
