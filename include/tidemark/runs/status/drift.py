"""What comes in that the pipeline's file does not name, or names as another type.

Told by the newest batches in bronze and rejects: of them at most LOOKED_AT rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from tidemark.pipeline.reasons import WRONG_TYPE
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.dropped_rejects import dropped_to
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse

LOOKED_AT = 100_000
# Of the newest batches.
_BATCHES = 10
# A column with fewer wrong values has not changed its type.
_LEAST_SHARE = 0.01
_TYPES = (
    ("long", {"UBIGINT", "BIGINT"}),
    # A double would make one value of many: account numbers, say.
    ("decimal(38,0)", {"UBIGINT", "BIGINT", "WIDE"}),
    ("double", {"UBIGINT", "BIGINT", "DOUBLE"}),
    ("boolean", {"BOOLEAN"}),
    ("string", {"VARCHAR"}),
)


@dataclass(frozen=True)
class NewField:
    """A field that no column takes. `share`: of the rows looked at; `since` is the time of the
    first batch among them that has it, UTC. `type`: what a column would be; None: its values are of
    several kinds, all null, whole numbers that no type holds, or objects and arrays."""

    name: str
    share: float
    since: datetime
    type: str | None


@dataclass(frozen=True)
class WrongColumn:
    """A column whose values are of another type. `share`: of the rows that were judged; `detail` is
    that of the newest reject."""

    column: str
    share: float
    detail: str


@dataclass(frozen=True)
class SourceDrift:
    """`rows`: how many were looked at. Both are in the order of their shares."""

    rows: int = 0
    fields: tuple[NewField, ...] = ()
    wrong: tuple[WrongColumn, ...] = ()


def source_drift(warehouse: Warehouse) -> SourceDrift:
    """Of the newest batches of a pipeline's ingest."""
    tables = [place.open() for place in (warehouse.bronze, warehouse.rejects)]
    last = max((_last_batch(one) for one in tables if one is not None), default=-1)
    bronze, rejects = tables
    if bronze is None or rejects is None or last < 0:
        return SourceDrift()
    # Of a batch without its rejects nobody can tell a share.
    after = max(last - _BATCHES, dropped_to(rejects))
    with duckdb_in_utc() as connection:
        for name, table in (("bronze", bronze), ("rejects", rejects)):
            rows = dataset_of(table, f"_batch > {after}")
            connection.register(f"all_{name}", rows)
            columns = "_extra, _batch_time" if name == "bronze" else "reason, detail, _batch_time"
            connection.execute(
                f"CREATE TEMP TABLE {name} AS SELECT {columns} FROM all_{name} "
                f"WHERE _batch > {after} LIMIT {LOOKED_AT}"
            )
        ((accepted, rejected, *all_),) = connection.execute(
            f"""
            SELECT (SELECT count(*) FROM bronze), (SELECT count(*) FROM rejects),
                (SELECT count(*) FROM all_bronze WHERE _batch > {after}),
                (SELECT count(*) FROM all_rejects WHERE _batch > {after})
            """
        ).fetchall()
        fields = connection.execute(_FIELDS).fetchall()
        wrong = connection.execute(_WRONG, [WRONG_TYPE]).fetchall()
    # Of all rows of these batches: at most so many of either are looked at, whatever their shares.
    judged, all_rejected = rejected * sum(all_), all_[1]
    return SourceDrift(
        accepted + rejected,
        tuple(
            NewField(n, rows / accepted, since, _type(kinds)) for n, rows, since, kinds in fields
        ),
        tuple(
            WrongColumn(column, rows * all_rejected / judged, detail)
            for column, rows, detail in wrong
            if rows * all_rejected >= _LEAST_SHARE * judged
        ),
    )


# What DuckDB calls UBIGINT or DOUBLE may be a whole number that no long holds: WIDE, if a decimal
# does.
_FIELDS = """
    SELECT one.key, count(*), min(_batch_time), list(DISTINCT CASE
        WHEN NOT regexp_full_match(one.value, '-?[0-9]+') THEN one.type
        WHEN TRY_CAST(one.value AS BIGINT) IS NOT NULL THEN one.type
        WHEN TRY_CAST(one.value AS DECIMAL(38, 0)) IS NOT NULL THEN 'WIDE'
        ELSE 'WIDER' END)
    FROM bronze, json_each(_extra) AS one
    WHERE _extra IS NOT NULL GROUP BY one.key ORDER BY count(*) DESC, one.key
"""
_WRONG = """
    SELECT regexp_extract(detail, '^(.+?) should be ', 1) AS label, count(*),
        max_by(detail, _batch_time)
    FROM rejects WHERE reason = ? AND label <> '' GROUP BY label ORDER BY count(*) DESC, label
"""


def _type(kinds: list[str]) -> str | None:
    there = set(kinds) - {"NULL"}
    return next((name for name, known in _TYPES if there and there <= known), None)


def _last_batch(table: DeltaTable) -> int:
    """By the statistics of its files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files: Any = pa.table(table.get_add_actions(flatten=True))
    if "max._batch" not in files.column_names:
        return -1
    newest = pc.max(files["max._batch"]).as_py()
    return -1 if newest is None else int(newest)
