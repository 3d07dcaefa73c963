"""Which row is of which kind: exact in total, spread evenly, known without memory."""

from __future__ import annotations

import math

import numpy as np

from samples.impressions.draw import Ints
from samples.impressions.spec import Plan

KINDS = (
    *("on_time", "late", "duplicate", "future"),
    *("broken_json", "missing_field", "wrong_type"),
)
ON_TIME, LATE, DUPLICATE, FUTURE, BROKEN_JSON, MISSING_FIELD, WRONG_TYPE = range(len(KINDS))


def kinds_of(plan: Plan, numbers: Ints, not_late_before: int) -> Ints:
    """The kinds of consecutive rows; `not_late_before` counts the rows before that are not late.

    Late rows take their places among the rows of the later files, all others theirs among the
    rows that are not late. Row 0 is on time: late rows and duplicates need one before them.
    """
    seed, later_rows = plan.spec.seed, plan.spec.rows - plan.ends[0]
    place = _spread(numbers - plan.ends[0], later_rows, seed)
    late = (numbers >= plan.ends[0]) & (place < plan.late)
    rank = not_late_before + np.cumsum(~late) - 1
    place = _spread(rank - 1, plan.spec.rows - plan.late - 1, seed)
    bounds = np.cumsum([plan.malformed, plan.duplicates, plan.future])
    group = np.searchsorted(bounds, place, side="right")
    kinds = np.array([BROKEN_JSON, DUPLICATE, FUTURE, ON_TIME])[group]
    kinds += np.where(group == 0, place % 3, 0)  # the three malformed kinds follow each other
    kinds[rank == 0] = ON_TIME
    kinds[late] = LATE
    return kinds


def _spread(numbers: Ints, size: int, shift: int) -> Ints:
    """A permutation of 0 .. size - 1 that takes neighbours far apart (golden-ratio steps)."""
    size = max(size, 1)
    step = max(int(size * 0.6180339887), 1)
    while math.gcd(step, size) != 1:
        step += 1
    return (numbers * step + shift) % size
