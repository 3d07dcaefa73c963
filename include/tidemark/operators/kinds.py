"""Which operator computes a table, by the class of its model in the pipeline's file."""

from __future__ import annotations

from functools import singledispatch

from tidemark.operators.operator import Operator
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Pipeline, Source, Table, WindowTable


def operator_of(pipeline: Pipeline, table: str) -> Operator:
    """The operator of a pipeline's table."""
    return operator_for(pipeline.tables[table], pipeline.source)


@singledispatch
def operator_for(table: Table, source: Source) -> Operator:
    """The operator that a table's model asks for, over a source's rows."""
    raise NotImplementedError(f"No operator is known for {type(table).__name__}.")


@operator_for.register
def _windows(table: WindowTable, source: Source) -> Operator:
    return Windows(source.event_time.column, table)
