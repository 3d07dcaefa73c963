"""`python -m bench.publishing STEP WHAT FOLDER WINDOWS`: one step of the figure.

The windows stand in a table of `changes` as a run would have left them: a thousand keys in each
ten minutes, so that five million make five weeks. Steps are `write` and `publish`, each `new`,
`changed` and `bounded` (changed, with little memory); and `few` by `spans` or `dates`: all windows
are those of one date, and then a few of its newest ones change, time after time. By `dates` is how
versions before published.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import types as T

from tidemark.gold import spans
from tidemark.gold.pins import TableResult
from tidemark.gold.plan import GENERATION
from tidemark.gold.publish import publish_table
from tidemark.gold.published import publish_note
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Window, WindowTable
from tidemark.pipeline.settings.duckdb_limits import DuckDBLimits
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_bounds import bound_memory
from tidemark.streaming.schemas import changes_schema, gold_schema

KEYS = 1_000
WINDOWS_OF_A_DATE = 144
FEW_PUBLISHES = 12
BOUNDED = "500MB"
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
        amount = ("new", "changed", "bounded").index(what) + 1
        write(Path(folder), _windows(int(windows), KEYS, amount))
    elif step == "publish":
        if what == "bounded":
            bound_memory(DuckDBLimits(memory_limit=BOUNDED))
        publish(Path(folder), int(windows))
    else:
        publish_few(Path(folder), int(windows), what)


def write(folder: Path, windows: str) -> None:
    """Append the windows that a query gives to `changes`."""
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
        reader = connection.sql(windows).to_arrow_reader()
        schema = pa.schema(table.schema().to_arrow())
        batches = (batch.cast(schema) for batch in reader)
        write_deltalake(table, pa.RecordBatchReader.from_batches(schema, batches), mode="append")


def _windows(windows: int, keys: int, amount: int, after: int = 0) -> str:
    """Those of numbers from one on, with another value for another amount."""
    return f"""
        SELECT TIMESTAMPTZ '2026-01-01 00:00:00+00' + (n // {keys}) * INTERVAL 10 minutes
                AS window_start,
            window_start + INTERVAL 10 minutes AS window_end, 'key' || n % {keys} AS key,
            n % 7 AS events, (n + 1) * {amount} AS amount, n % 7 + 1 AS rows,
            'stream' AS cause, 1::BIGINT AS generation, 'run' AS run, 0::BIGINT AS batch,
            NULL::VARCHAR AS {FAILURE}
        FROM (SELECT range AS n FROM range({after}, {after + windows}))
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


def publish_few(folder: Path, windows: int, how: str) -> None:
    """Tells, as JSON, the CPU seconds of a publish and the bytes of all files that publishes wrote
    and of what changed."""
    if how == "dates":
        spans.MOST_SPANS = 0
    keys, few = windows // WINDOWS_OF_A_DATE, max(windows // 500, 1)
    windows = keys * WINDOWS_OF_A_DATE
    write(folder, _windows(windows, keys, 1))
    publish(folder, windows)
    gold = DeltaTable(str(folder / "gold"))
    (size,) = pa.table(gold.get_add_actions())["size_bytes"].to_pylist()
    began = written = 0.0
    for number in range(FEW_PUBLISHES + 1):
        if number == 1:
            # The first one finds the date as one file.
            began, written = process_time(), _bytes_in(folder / "gold")
        first = windows - (1 + number % 3) * keys
        write(folder, _windows(few, keys, 2 + number, first))
        publish(folder, few)
    cost = (process_time() - began) / FEW_PUBLISHES
    wrote = (_bytes_in(folder / "gold") - written) / FEW_PUBLISHES
    told = {"cpu": cost, "written": wrote, "changed": size * few / windows}
    (folder / "few.json").write_text(json.dumps(told))


def _bytes_in(table: Path) -> float:
    return sum(file.stat().st_size for file in table.rglob("*.parquet"))


if __name__ == "__main__":
    main()
