"""The audit: is gold what one batch query over bronze gives? Reads only, and takes no lease.

The life of a table's audit:
1. read gold's version and its transactions, then bronze's: later rows are known as such by
   their batch (`gold/published_bronze.py`), so that a run may work beside it;
2. decide which windows can be compared (`recompute/audit_range.py`, pure);
3. compare both ways in Spark, and collect counts and a few examples.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidemark.gold.published_bronze import PublishedBronze, published_bronze
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.instants import instant_of
from tidemark.recompute.audit_range import audited_range
from tidemark.recompute.audit_result import TableAudit
from tidemark.recompute.differences import Differences
from tidemark.runs.run import Run, TableRun
from tidemark.storage.delta.dataset import dataset_of
from tidemark.streaming.recompute.compare import compare_windows, wide_session, window_differences
from tidemark.streaming.recompute.windows_of import (
    check_pipeline_columns,
    published_others,
    windows_by_bronze,
    windows_in_gold,
)


def audit_table(
    spark: SparkSession, run: Run, name: str, start: datetime | None, end: datetime | None
) -> TableAudit:
    """Compare the windows of one table that start in [start, end) with bronze; None: from the first
    one, up to the last one. TableMismatch where the tables are not the pipeline's."""
    table = run.table(name)
    state, gold, bronze = table.state, table.gold.existing(), table.bronze.existing()
    published = published_bronze(bronze, state.bronze)
    check_pipeline_columns(spark, table)
    frozen = table.frozen_before_ms()
    windows = audited_range(
        table.operator, start, end, _dates(gold, bronze), state.close_ms, frozen
    )
    return TableAudit(
        gold=state.version,
        bronze=published.version,
        before_batch=published.before_batch,
        close_ms=state.close_ms,
        closed_only=run.pipeline.tables[name].output_mode == "append",
        windows_from=windows.first_start if windows else None,
        windows_to=windows.last_start if windows else None,
        frozen=_frozen(gold, start, end, frozen),
        found=_found(spark, table, published, windows),
    )


def _found(
    spark: SparkSession, table: TableRun, bronze: PublishedBronze, windows: RowRange | None
) -> Differences:
    if windows is None:
        return Differences()
    session, operator = wide_session(spark), table.operator
    computed = windows_by_bronze(session, table, bronze, published_others(table), windows)
    held = windows_in_gold(session, table, windows)
    return window_differences(compare_windows(held, computed, operator), operator)


def _dates(gold: DeltaTable, bronze: DeltaTable) -> Iterable[date]:
    """The dates of which either table has any file."""
    for table, column in ((gold, "window_date"), (bronze, "_event_date")):
        for partition in table.partitions():
            yield date.fromisoformat(partition[column])


def _frozen(
    gold: DeltaTable, start: datetime | None, end: datetime | None, frozen_before_ms: int | None
) -> int:
    """How many windows of gold in the range are frozen."""
    if frozen_before_ms is None:
        return 0
    starts = ds.field("window_start")
    frozen = starts < instant_of(frozen_before_ms)
    if start:
        frozen = frozen & (starts >= start)
    if end:
        frozen = frozen & (starts < end)
    return int(dataset_of(gold).count_rows(filter=frozen))
