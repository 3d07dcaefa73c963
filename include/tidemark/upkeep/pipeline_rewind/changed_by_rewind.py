"""Which windows of gold changed by a rewind: who follows gold has to read these again."""

from __future__ import annotations

from collections.abc import Iterator

from deltalake import DeltaTable

from tidemark.gold.pins import Published
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import listed
from tidemark.pipeline.model import Pipeline
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_rewind.change import PipelineChange

# Of a row of gold, what says only which run wrote it.
_NOT_ITS_OWN = "updated_by"


def changed_by_rewind(
    change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse
) -> Iterator[tuple[str, Published]]:
    """By table, the windows that are there no more, are new, or differ; not of a table where none
    does. Columns that gold does not have both times are left out."""
    for gold in change.golds:
        place = warehouse.gold(gold.table)
        if gold.back is None:
            continue
        identity = operator_of(pipeline, gold.table).identity
        found = _changed(place.at_version(gold.back.seen), place.existing(), identity)
        if found is not None:
            yield gold.table, found


def _changed(before: DeltaTable, after: DeltaTable, identity: tuple[str, ...]) -> Published | None:
    rows = {"before": dataset_of(before), "after": dataset_of(after)}
    of_before = rows["before"].schema.names
    both = [name for name in rows["after"].schema.names if name in of_before]
    values = listed([name for name in both if name != _NOT_ITS_OWN])
    keys = listed([name for name in identity if name in both])
    with duckdb_in_utc() as connection:
        for name, dataset in rows.items():
            connection.register(name, dataset)
        ((windows, start, end),) = connection.execute(
            f"""
            WITH gone AS (SELECT {values} FROM before EXCEPT SELECT {values} FROM after),
                come AS (SELECT {values} FROM after EXCEPT SELECT {values} FROM before)
            SELECT count(DISTINCT ({keys})), epoch_ms(min(window_start)), epoch_ms(max(window_end))
            FROM (SELECT * FROM gone UNION ALL SELECT * FROM come)
            """
        ).fetchall()
    return Published(windows=windows, start_ms=start, end_ms=end) if windows else None
