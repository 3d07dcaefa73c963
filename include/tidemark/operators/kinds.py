"""Which operator computes a table, by the class of its model in the pipeline's file."""

from __future__ import annotations

from tidemark.operators.folds.folds import Folds
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import Operator
from tidemark.operators.sessions.sessions import Sessions
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import (
    FoldTable,
    JoinTable,
    Pipeline,
    SessionTable,
    Table,
    WindowTable,
)

KINDS: dict[type[Table], type[Operator]] = {
    WindowTable: Windows,
    SessionTable: Sessions,
    JoinTable: Joins,
    FoldTable: Folds,
}


def operator_of(pipeline: Pipeline, table: str) -> Operator:
    """The operator of a pipeline's table."""
    model = pipeline.tables[table]
    return KINDS[type(model)].of(pipeline, model)
