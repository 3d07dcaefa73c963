"""Rows that are detached from the stream: open ones of which its state is not what bronze gives.

Where an operator keeps on from a state that lacks a late row (`Traits.detaches_rows`), nothing
that it emits of that row of gold is right, and what it does not emit is not to be seen. So
`changes` has a row of cause `apart` of each that a late row touched while it was open, before the
publish that takes the late row along: from then on each run computes it from bronze, until it is
closed. One that grows or merges is noted again. Such a row says nothing of gold, as one of cause
`failed`.

A later generation's query reads the late rows with all others, so that nothing of it is detached.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import APART
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.distinct_rows import distinct_rows
from tidemark.storage.duckdb_in_utc import duckdb_in_utc


def detached_rows(
    changes: DeltaTable, operator: Operator, generation: int, after_ms: int
) -> pa.Table:
    """What is noted as detached in a generation and ends after this, where it was noted, in the
    columns of `Operator.located`. Files without such a row are left out by their statistics."""
    names = list(operator.located)
    if not operator.traits.detaches_rows:
        return schema_of(changes).empty_table().select(names)
    found: Any = dataset_of(changes, f"cause = '{APART}'")
    noted = (ds.field("cause") == APART) & (ds.field("generation") == generation)
    rows = found.to_table(
        columns=names, filter=noted & (ds.field("window_end") > instant_of(after_ms))
    )
    return distinct_rows(pa.table(rows))


def to_note(found: pa.Table, noted: pa.Table, operator: Operator, closed_ms: int) -> pa.Table:
    """Of what bronze gives, what is open behind this frontier and not noted as it is."""
    names = listed(operator.located)
    same = " AND ".join(f'f."{name}" IS NOT DISTINCT FROM n."{name}"' for name in operator.located)
    with duckdb_in_utc() as connection:
        connection.register("found", found.filter(ds.field("window_end") > instant_of(closed_ms)))
        connection.register("noted", noted)
        rows = connection.sql(
            f'SELECT DISTINCT {names}, "rows" FROM found f ANTI JOIN noted n ON {same}'
        ).to_arrow_table()
    return pa.table(rows).cast(found.select([*operator.located, "rows"]).schema)
