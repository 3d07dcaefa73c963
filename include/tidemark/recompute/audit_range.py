"""Which windows an audit can compare: pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from tidemark.operators.operator import Operator
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.instants import instant_of

_DAY = timedelta(days=1)


def audited_range(
    operator: Operator,
    start: datetime | None,
    end: datetime | None,
    dates: Iterable[date],
    close_ms: int,
    frozen_before_ms: int | None,
) -> RowRange | None:
    """The windows to compare; None where there is none.

    Without `start` or `end` all windows that touch `dates`, of which bronze or gold have files.
    In append mode only those that are closed by the frontier: gold gets a window once it closes.
    With `keep` only those that are not frozen: bronze may have dropped rows of the others.
    """
    known = sorted(dates)
    if not known:
        return None
    starts = [start or operator.first_start_touching(_midnight(known[0]))]
    ends = [end or _midnight(known[-1]) + _DAY]
    closed_only = operator.table.output_mode == "append"
    if closed_only:
        ends.append(operator.first_open_start(close_ms))
    if frozen_before_ms is not None:
        starts.append(operator.first_kept_start(frozen_before_ms))
    found = operator.starting_in(max(starts), min(ends))
    return found.ending_by(instant_of(close_ms)) if found and closed_only else found


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
