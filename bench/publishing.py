"""`python -m bench.publishing write|publish new|changed FOLDER WINDOWS`: one step of the figure.

The windows stand in a table of `changes` as a run would have left them: a thousand keys in each
ten minutes, so that five million make five weeks.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import types as T

from tidemark.gold.pins import TableResult
from tidemark.gold.plan import GENERATION
from tidemark.gold.publish import publish_table
from tidemark.gold.published import publish_note
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.schemas import changes_schema, gold_schema

KEYS = 1_000
NOW = datetime(2026, 7, 1, tzinfo=UTC)
LENGTH = timedelta(minutes=10)
_COLUMNS: dict[str, T.DataType] = {
    "window_start": T.TimestampType(),
    "window_end": T.TimestampType(),
    "key": T.StringType(),
    "events": T.LongType(),
    "amount": T.LongType(),
    "rows": T.LongType(),
}


def main() -> None:
    step, what, folder, windows = sys.argv[1:]
    if step == "write":
        write(Path(folder), what, int(windows))
    else:
        publish(Path(folder), int(windows))


def write(folder: Path, what: str, windows: int) -> None:
    """Append every window to `changes`, with another value for each of the two publishes."""
    aggregated = T.StructType([T.StructField(name, kind) for name, kind in _COLUMNS.items()])
    gold = gold_schema(aggregated, {}).json()
    spec = TableSpec(gold, ("window_date",), transactions={GENERATION: 1})
    ensure_table(TablePlace(str(folder / "gold")), spec)
    changes = TableSpec(
        changes_schema(aggregated).json(),
        properties={"delta.enableChangeDataFeed": "true"},
    )
    table = ensure_table(TablePlace(str(folder / "changes")), changes)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        reader = connection.sql(_windows(windows, 1 if what == "new" else 2)).to_arrow_reader()
        schema = pa.schema(table.schema().to_arrow())
        batches = (batch.cast(schema) for batch in reader)
        write_deltalake(table, pa.RecordBatchReader.from_batches(schema, batches), mode="append")


def _windows(windows: int, amount: int) -> str:
    return f"""
        SELECT TIMESTAMPTZ '2026-01-01 00:00:00+00' + (n // {KEYS}) * INTERVAL 10 minutes
                AS window_start,
            window_start + INTERVAL 10 minutes AS window_end, 'key' || n % {KEYS} AS key,
            n % 7 AS events, (n + 1) * {amount} AS amount, n % 7 + 1 AS rows,
            'stream' AS cause, 1::BIGINT AS generation, 'run' AS run, 0::BIGINT AS batch,
            NULL::VARCHAR AS {FAILURE}
        FROM (SELECT range AS n FROM range({windows}))
    """


def publish(folder: Path, windows: int) -> None:
    """Publish all that `changes` holds; every window must be written."""
    table = WindowTable(
        window=Window(length=LENGTH, slide=LENGTH),
        group_by=("key",),
        measures={"events": "sum(events)", "amount": "sum(amount)"},
    )
    pins = TableResult(
        generation=1,
        changes=DeltaTable(str(folder / "changes")).version(),
        inputs={"bronze": 0},
        windows_changed=windows,
        watermark_before_ms=0,
        watermark_after_ms=0,
        close_before_ms=0,
        close_after_ms=0,
    )
    gold, changes = TablePlace(str(folder / "gold")), TablePlace(str(folder / "changes"))
    published = publish_table(Windows("at", table), pins, gold, changes, publish_note("run", NOW))
    assert published.published_windows == windows, published


if __name__ == "__main__":
    main()
