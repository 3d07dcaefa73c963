"""Do a pipeline's tables exist, with the columns that its last run planned? Asked without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidemark.runs.kept_columns import is_planned_from, kept_columns
from tidemark.runs.run import Run
from tidemark.storage.delta.create import TableSpec, check_columns
from tidemark.storage.delta.history import ADDED_TO_CHANGES
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.generation import generation_in_use


def why_tables_do_not_fit(run: Run) -> str | None:
    """What a run has to plan, make or add before it can go on; None where all is there.

    Raises TableMismatch where a table's columns are others, as the run would.
    """
    kept = kept_columns(run.places.planned_columns, run.settings.storage_options)
    if not is_planned_from(kept, run.pipeline):
        return "the pipeline's file, or Tidemark, is another than its last run's"
    for place, spec in _specs(run, kept):
        table = place.open()
        if table is None:
            return f"the table {place.uri} is to be made"
        check_columns(place, table, spec)
        there = {field.name for field in table.schema().fields}
        wanted = {field["name"] for field in json.loads(spec.schema_json)["fields"]}
        if wanted - there:
            return f"the table {place.uri} gets new columns"
    return None


def _specs(run: Run, kept: dict[str, Any]) -> Iterator[tuple[TablePlace, TableSpec]]:
    tables = run.warehouse
    for place, schema in ((tables.bronze, kept["bronze"]), (tables.rejects, kept["rejects"])):
        yield place, TableSpec(json.dumps(schema), may_add=None)
    for name in run.pipeline.tables:
        yield (
            tables.changes(name, generation_in_use(tables, name)),
            TableSpec(json.dumps(kept["changes"][name]), may_add=ADDED_TO_CHANGES),
        )
        yield tables.gold(name), TableSpec(json.dumps(kept["gold"][name]))
