"""Clicks on the impressions: which of the good rows are clicked, when, at what cost, in which file.

A click is a line of its own, tied to its impression by `impressionId`:
- its event time is the impression's and from a second to `Clicks.within` more;
- a share of them is late: they stand in the file after that of their impression, so that a stream
  which reads file by file has seen newer ones before. The last file has nothing after it: all of
  its clicks stand in its own.
Duplicates of an impression are the same impression: it is clicked once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from samples.impressions.draw import CLICKED, COST, LATE_CLICK, WAITED, Ints, below
from samples.impressions.kinds import LATE
from samples.impressions.rows import Chunk
from samples.impressions.spec import Spec, milliseconds

LINE = '{"timestamp":"%s","impressionId":"%s","cost":%s}'
_PARTS = 1_000_000


@dataclass(frozen=True)
class Clicks:
    """What to make: shares are of the good impressions, and of the clicks."""

    share: float = 0.1
    late: float = 0.05
    within: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class ClickFile:
    """The lines of one file, and how many of them were held back for it."""

    file: int
    lines: list[str]
    late: int


def clicks_of(spec: Spec, clicks: Clicks, chunks: Iterable[Chunk]) -> Iterator[ClickFile]:
    """A file of clicks for each file of impressions, in their order."""
    own: list[str] = []
    held: list[str] = []
    before: list[str] = []
    file = row = 0
    for chunk in chunks:
        if chunk.file != file:
            yield ClickFile(file, before + own, len(before))
            file, own, held, before = chunk.file, [], [], held
        last = file == spec.files - 1
        for line, late in _clicks_in(spec, clicks, chunk, row):
            (held if late and not last else own).append(line)
        row += len(chunk.lines)
    yield ClickFile(file, before + own, len(before))


def _clicks_in(
    spec: Spec, clicks: Clicks, chunk: Chunk, first_row: int
) -> Iterator[tuple[str, bool]]:
    numbers: Ints = first_row + np.arange(len(chunk.lines), dtype=np.int64)
    clicked = below(spec.seed, CLICKED, numbers, _PARTS) < clicks.share * _PARTS
    places = np.flatnonzero(clicked & (chunk.kinds <= LATE))
    numbers = numbers[places]
    seconds = milliseconds(clicks.within) - 999
    waited = 1_000 + below(spec.seed, WAITED, numbers, max(seconds, 1))
    times = (chunk.times[places] + waited).astype("datetime64[ms]")
    stamps = np.datetime_as_string(times, timezone="UTC").tolist()
    late = (below(spec.seed, LATE_CLICK, numbers, _PARTS) < clicks.late * _PARTS).tolist()
    costs = below(spec.seed, COST, numbers, 100).tolist()
    for place, stamp, cost, is_late in zip(places.tolist(), stamps, costs, late, strict=True):
        impression = json.loads(chunk.lines[place])["impressionId"]
        yield LINE % (stamp, impression, f"0.{cost:02d}"), is_late
