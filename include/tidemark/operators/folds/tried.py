"""A table's fold tried without Spark, over the rows that bronze has: is it deterministic?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.operators.folds.folding import NOT_DETERMINISTIC, HeldRow
from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.seeds import keys_folded_under_seeds
from tidemark.operators.folds.values import ordered, read_rows
from tidemark.operators.keys import does_count
from tidemark.pipeline.instants import epoch_us
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc


def not_deterministic(operator: Folds, bronze: DeltaTable) -> Iterator[str]:
    """What is to be said of each key of which two folds of the same rows differ. All of bronze is
    read: for a few rows."""
    rows = dataset_of(bronze).to_table()
    with duckdb_in_utc() as connection:
        connection.register("bronze", rows)
        counting = does_count(rows.schema, operator.table.where)
        counts = connection.sql(f"SELECT {counting} AS counts FROM bronze").to_arrow_table()
    rows = rows.filter(pa.table(counts).column("counts"))
    spec = operator.spec(rows.column_names)
    for name in set(spec.columns).difference(rows.column_names):
        rows = rows.append_column(name, pa.nulls(rows.num_rows))
    by_key: defaultdict[Any, list[HeldRow]] = defaultdict(list)
    names: dict[Any, dict[str, Any]] = {}
    for row in read_rows([rows.column(name) for name in spec.columns]):
        values = dict(zip(spec.columns, row, strict=True))
        if (at := values[operator.event_time]) is None:
            continue
        key = tuple(ordered(values[name]) for name in operator.table.group_by)
        names[key] = {name: values[name] for name in operator.table.group_by}
        by_key[key].append(HeldRow(epoch_us(at), row))
    outputs = keys_folded_under_seeds(spec, list(by_key.values()), None)
    for key, of_key in zip(by_key, outputs, strict=True):
        for output in of_key:
            if output.failure and NOT_DETERMINISTIC in output.failure:
                key_text = ", ".join(f"{name}={value}" for name, value in names[key].items())
                yield f"{key_text}: {output.failure}"
