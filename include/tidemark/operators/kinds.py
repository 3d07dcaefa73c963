"""Which operator computes a table, by the class of its model in the pipeline's file."""

from __future__ import annotations

from tidemark.operators.calendars.calendars import Calendars
from tidemark.operators.folds.folds import Folds
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import Operator
from tidemark.operators.sessions.sessions import Sessions
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import (
    CalendarTable,
    FoldTable,
    JoinTable,
    Pipeline,
    SessionTable,
    Table,
    WindowTable,
)

KINDS: dict[type[Table], type[Operator]] = {
    WindowTable: Windows,
    CalendarTable: Calendars,
    SessionTable: Sessions,
    JoinTable: Joins,
    FoldTable: Folds,
}


def operator_of(pipeline: Pipeline, table: str) -> Operator:
    """The operator of a pipeline's table."""
    model = pipeline.tables[table]
    return KINDS[type(model)].of(pipeline, model)
