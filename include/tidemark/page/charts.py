"""What the charts draw, as plain values for JSON: times in seconds since 1970, UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.ledger.report import RejectedOfRun
from tidemark.page.corrections import Correction
from tidemark.page.reading import RunShown
from tidemark.page.series import Series, key_json, key_text
from tidemark.runs.status.recent_runs import RecentRun

_BARS = 10
_BAR, _GAP, _HEIGHT = 7, 2, 26
_LEAST = 2
_STEPS = ("preflight", "session", "ingest", "aggregate", "repair", "ledger", "validate", "publish")


@dataclass(frozen=True)
class Bar:
    """A run in the overview, in pixels from the top left; `accepted` and `rejected` are heights."""

    x: int
    width: int
    accepted: float
    rejected: float
    top: float
    run: RecentRun


def bars_of(runs: Sequence[RecentRun]) -> list[Bar]:
    """Rows read of the newest runs, the oldest first. Rejects can be seen, however few they are."""
    shown = list(reversed(runs[:_BARS]))
    most = max((run.accepted + run.rejected for run in shown), default=0) or 1
    bars = []
    for at, run in enumerate(shown, _BARS - len(shown)):
        rejected = max(run.rejected / most * _HEIGHT, _LEAST) if run.rejected else 0.0
        accepted = min(run.accepted / most * _HEIGHT, _HEIGHT - rejected)
        bars.append(
            Bar(at * (_BAR + _GAP), _BAR, accepted, rejected, _HEIGHT - accepted - rejected, run)
        )
    return bars


def run_charts(
    runs: Sequence[RunShown], table: str | None, corrections: Sequence[Correction]
) -> dict[str, Any]:
    """The charts of a pipeline, a value for each run. The frontiers are those of one table."""
    column = {one.run.run: at for at, one in enumerate(runs)}
    of_table = [one.tables.get(table or "", (None, None)) for one in runs]
    return {
        "runs": [one.run.run for one in runs],
        "times": [one.stands_for.timestamp() for one in runs],
        "outcomes": [one.run.outcome for one in runs],
        "newest": _kept(one.newest_event for one in runs),
        "watermark": _kept(watermark for watermark, _ in of_table),
        "closed": _kept(closed for _, closed in of_table),
        "marks": [
            [column[one.run], one.window_start.timestamp()]
            for one in corrections
            if one.run in column
        ],
        "accepted": [one.run.accepted if one.run.counted else None for one in runs],
        "reasons": _by_name(runs, lambda one: one.run.reasons, _largest_first),
        "late": [one.late_rows if one.run.counted else None for one in runs],
        "corrected": [one.run.corrected_windows if one.run.counted else None for one in runs],
        "seconds": _by_name(runs, lambda one: one.seconds, _in_order),
        "state": [one.state_bytes for one in runs],
    }


def _kept(times: Iterable[datetime | None]) -> list[float | None]:
    """A run that did not get so far left what was there before it."""
    last: float | None = None
    found = []
    for time in times:
        last = last if time is None else time.timestamp()
        found.append(last)
    return found


def _by_name(
    runs: Sequence[RunShown],
    numbers: Callable[[RunShown], Mapping[str, float]],
    in_order: Callable[[Mapping[str, float]], Iterable[str]],
) -> dict[str, list[float]]:
    sums: Counter[str] = Counter()
    for one in runs:
        sums.update(numbers(one))
    return {name: [numbers(one).get(name, 0) for one in runs] for name in in_order(sums)}


def _largest_first(sums: Mapping[str, float]) -> list[str]:
    return sorted(sums, key=lambda name: (-sums[name], name))


def _in_order(steps: Iterable[str]) -> list[str]:
    """The steps of runs as they come; `seconds` is a map, whose order nobody keeps."""
    known = [*_STEPS]
    return sorted(steps, key=lambda name: (known.index(name) if name in known else 99, name))


def series_chart(
    series: Series, measure: str, closed_to: datetime | None, corrections: Sequence[Correction]
) -> dict[str, Any]:
    """The chart of a table: the lines of a number by key, and what it was before corrections."""
    keys = {one.key: at for at, one in enumerate(series.keys)}
    before = []
    for one in corrections:
        at = keys.get(one.key)
        if at is not None and one.before and isinstance(one.before.get(measure), int | float):
            before.append([at, one.window_start.timestamp(), one.before[measure]])
    return {
        "measure": measure,
        "closed": None if closed_to is None else closed_to.timestamp(),
        "keys": [
            {
                "label": key_text(one.key),
                "key": key_json(one.key),
                "points": [[p.start, p.value, p.status] for p in one.points],
            }
            for one in series.keys
        ],
        "before": before,
    }


def totals(counts: Sequence[RejectedOfRun]) -> dict[str, int]:
    """Rejected rows of all time by reason, the most first."""
    found: Counter[str] = Counter()
    for one in counts:
        found[one.reason] += one.rows
    return dict(found.most_common())


def reject_chart(counts: Sequence[RejectedOfRun], most: int) -> dict[str, Any]:
    """Rejected rows by run and reason, of the newest runs that are known, the oldest first."""
    runs: dict[str, dict[str, int]] = {}
    times: dict[str, float] = {}
    for one in counts:
        if one.run is None or one.scheduled_at is None:
            continue
        if len(runs) == most and one.run not in runs:
            break
        runs.setdefault(one.run, {})[one.reason] = one.rows
        times[one.run] = one.scheduled_at.timestamp()
    shown = list(reversed(runs))
    return {
        "runs": shown,
        "times": [times[run] for run in shown],
        "reasons": {name: [runs[run].get(name, 0) for run in shown] for name in totals(counts)},
    }
