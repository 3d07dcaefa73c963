"""What the charts draw, as plain values for JSON: times in seconds since 1970, UTC."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from tidemark.ledger.report import RejectedOfRun
from tidemark.page.corrections import Correction
from tidemark.runs.status.recent_runs import RecentRun

_BARS = 10
_HEIGHT, _LEAST = 26, 2
_STEPS = ("preflight", "session", "ingest", "aggregate", "repair", "ledger", "validate", "publish")
_COLOURS = tuple(f"c{number}" for number in range(1, 9))
Numbers = Mapping[str, float]


def bars_of(runs: Sequence[RecentRun]) -> list[tuple[float, float]]:
    """Accepted and rejected rows of the newest runs, in pixels, the oldest first. Rejects can be
    seen, however few they are."""
    shown = runs[:_BARS]
    most = max((run.accepted + run.rejected for run in shown), default=0) or 1
    bars = []
    for run in reversed(shown):
        rejected = max(run.rejected / most * _HEIGHT, _LEAST) if run.rejected else 0.0
        bars.append((min(run.accepted / most * _HEIGHT, _HEIGHT - rejected), rejected))
    return bars


def run_charts(
    rows: Sequence[Mapping[str, Any]],
    runs: Sequence[RecentRun],
    sizes: Mapping[str, int],
    table: str | None,
    corrections: Sequence[Correction],
) -> dict[str, Any]:
    """The charts of a pipeline, a value for each run, by the rows of `ops/runs` and what they tell,
    the oldest first. The frontiers are those of one table."""
    column = {run.run: at for at, run in enumerate(runs)}
    frontiers: list[Mapping[str, Any]] = [
        next((one for one in row["tables"] or () if one["table"] == table), {}) for row in rows
    ]
    picture = (
        ("closed up to", "closed", _kept(_closed(one) for one in frontiers)),
        ("watermark", "watermark", _kept(one.get("watermark_after") for one in frontiers)),
        ("newest event", "newest", _kept(row.get("newest_event") for row in rows)),
    )
    late = [run.late_rows if run.counted else None for run in runs]
    corrected = [run.corrected_windows if run.counted else None for run in runs]
    state = [sizes.get(run.run) for run in runs]
    return _of_runs(
        [run.run for run in runs],
        [run.scheduled_at or run.started_at for run in runs],
        {
            "picture": [one for one in picture if any(one[2])],
            "accepted": [
                ("accepted", "accepted", [run.accepted if run.counted else None for run in runs])
            ],
            "rejected": _stack([run.reasons for run in runs], _largest_first),
            "late": [("late rows", "c1", late), ("corrected windows", "corrected", corrected)],
            "seconds": _stack([dict(row["seconds"] or ()) for row in rows], _in_order),
            "state": [("bytes", "c3", state)] if any(state) else [],
        },
        [
            (column[one.run], one.window_start.timestamp())
            for one in corrections
            if one.run in column
        ],
    )


def reject_chart(counts: Sequence[RejectedOfRun], most: int) -> dict[str, Any]:
    """Rejected rows by run and reason, of the newest runs that are known, the oldest first."""
    runs: dict[str, dict[str, float]] = {}
    times: dict[str, datetime] = {}
    for one in counts:
        if one.run is not None and one.scheduled_at is not None:
            runs.setdefault(one.run, {})[one.reason] = one.rows
            times[one.run] = one.scheduled_at
    shown = list(runs)[:most][::-1]
    stack = _stack([runs[run] for run in shown], _largest_first)
    return _of_runs(shown, [times[run] for run in shown], {"rejected": stack})


def totals(counts: Sequence[RejectedOfRun]) -> dict[str, int]:
    """Rejected rows of all time by reason, the most first."""
    found: Counter[str] = Counter()
    for one in counts:
        found[one.reason] += one.rows
    return dict(found.most_common())


def with_corrections(
    series: Mapping[str, Any], measure: str, corrections: Sequence[Correction]
) -> dict[str, Any]:
    """The chart of a table: the lines of a number by key, with what it was before corrections."""
    before = {
        (one.key, one.window_start.timestamp()): _drawn(one.before.get(measure))
        for one in corrections
        if one.before
    }
    keys = [
        {**one, "before": [before.get((of, start)) for start in series["starts"]]}
        for of, one in series["keys"].items()
    ]
    return {"starts": series["starts"], "windows": series["windows"], "keys": keys}


def _drawn(value: Any) -> float | None:
    """A number as JSON has it."""
    if not isinstance(value, int | float | Decimal):
        return None
    return float(value) if math.isfinite(value) else None


def _of_runs(
    runs: Sequence[str],
    times: Sequence[datetime],
    charts: Mapping[str, Sequence[tuple[str, str, Sequence[float | None]]]],
    marks: Sequence[tuple[int, float]] = (),
) -> dict[str, Any]:
    """Charts with a column for each run; of each its lines or layers: name, colour, values."""
    seconds = [time.timestamp() for time in times]
    return {"runs": runs, "times": seconds, "charts": charts, "marks": marks}


def _closed(frontiers: Mapping[str, Any]) -> datetime | None:
    """Gold's frontier after the run: what a held run would close is not closed."""
    return frontiers.get("close_before" if frontiers.get("gold_version") is None else "close_after")


def _kept(times: Iterable[datetime | None]) -> list[float | None]:
    """A run that did not get so far left what was there before it."""
    last: float | None = None
    found = []
    for time in times:
        last = last if time is None else time.timestamp()
        found.append(last)
    return found


def _stack(
    numbers: Sequence[Numbers], in_order: Callable[[Numbers], Iterable[str]]
) -> list[tuple[str, str, list[float]]]:
    """A layer for each name; where there are more than colours, the last has all others."""
    sums: Counter[str] = Counter()
    for one in numbers:
        sums.update(one)
    names = list(in_order(sums))
    most = len(_COLOURS) if len(names) <= len(_COLOURS) else len(_COLOURS) - 1
    layers = [(name, [one.get(name, 0) for one in numbers]) for name in names[:most]]
    if rest := names[most:]:
        others = [sum(one.get(name, 0) for name in rest) for one in numbers]
        layers.append((f"{len(rest)} others", others))
    return [(name, paint, of) for (name, of), paint in zip(layers, _COLOURS, strict=False)]


def _largest_first(sums: Numbers) -> list[str]:
    return sorted(sums, key=lambda name: (-sums[name], name))


def _in_order(steps: Iterable[str]) -> list[str]:
    """The steps of runs as they come; `seconds` is a map, whose order nobody keeps."""
    return sorted(steps, key=lambda name: (_STEPS.index(name) if name in _STEPS else 99, name))
