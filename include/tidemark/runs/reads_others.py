"""Tables that join say so beside the bronze that they read (`gold/other_readers.py`)."""

from __future__ import annotations

from tidemark.gold.other_readers import OtherReader, forget_reader, note_reader
from tidemark.operators.operator import Operator
from tidemark.operators.other_inputs import other_pipelines
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.run import Run
from tidemark.storage.warehouse import Warehouse


def note_as_reader(run: Run) -> None:
    """In the folders of the pipelines that joins read, before anything of theirs is read."""
    for name in run.pipeline.tables:
        note_reader_of(run.settings, run.pipeline.name, name, run.operator(name))


def note_reader_of(settings: Settings, pipeline: str, name: str, operator: Operator) -> None:
    """Note it of one table of a pipeline, which this operator computes. Safe to repeat."""
    for other in other_pipelines(operator):
        note_reader(Warehouse.of(other, settings), OtherReader(pipeline=pipeline, table=name))


def forget_former(run: Run, name: str, former: Operator) -> None:
    """Take the notes of a table back where its new generation reads them no more. Safe to repeat;
    a note that is left over keeps rows which nobody needs, and maintenance says so."""
    now = other_pipelines(run.operator(name))
    for other in set(other_pipelines(former)).difference(now):
        reader = OtherReader(pipeline=run.pipeline.name, table=name)
        forget_reader(Warehouse.of(other, run.settings), reader)
