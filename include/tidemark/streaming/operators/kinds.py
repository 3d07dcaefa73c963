"""Which Spark half an operator has."""

from __future__ import annotations

import pyarrow as pa

from tidemark.operators.calendars.calendars import Calendars
from tidemark.operators.folds.folds import Folds
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import Operator
from tidemark.operators.sessions.sessions import Sessions
from tidemark.operators.windows.windows import Windows
from tidemark.streaming.operators.calendars import StreamedCalendars
from tidemark.streaming.operators.folds import StreamedFolds
from tidemark.streaming.operators.joins import StreamedJoins
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.sessions import StreamedSessions
from tidemark.streaming.operators.windows import StreamedWindows

STREAMED: dict[type[Operator], type[StreamedOperator]] = {
    Windows: StreamedWindows,
    Calendars: StreamedCalendars,
    Sessions: StreamedSessions,
    Joins: StreamedJoins,
    Folds: StreamedFolds,
}


def streamed_operator(
    operator: Operator,
    excluded: pa.Table | None = None,
    up_to_ms: int | None = None,
    exact: bool = True,
) -> StreamedOperator:
    """The Spark half of an operator, of its kind, without what is set aside; of what ends later
    than a frontier, it may give anything. `exact`: as there."""
    return STREAMED[type(operator)](operator, excluded, up_to_ms, exact)
