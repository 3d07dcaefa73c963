"""What bronze drops by `keep` cuts no session that an audit or a backfill may compute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kit.running import Place, clicks
from tidemark.gold.retention import first_kept_date
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.pipeline.instants import epoch_ms, instant_of

MIDNIGHT = datetime(2026, 7, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
COLUMNS = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("key", pa.string()), ("_event_date", pa.date32())]
)
GAPS = ["6 minutes", "30 hours", "3650 days"]

# Of a key, so many minutes after midnight.
Rows = Sequence[tuple[str, float]]
some_rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-3_000, 3_000).map(lambda n: n / 2)),
    min_size=1, max_size=30,
)  # fmt: skip
# One key whose session holds the frontier, and another one whose session began the day before.
BESIDE = [*(("robot", float(n)) for n in range(1, 60, 5)),
          *(("visitor", float(n)) for n in (-4, -1, 3, 7))]  # fmt: skip


def bronze_of(folder: str, rows: Rows, since: date = date.min) -> DeltaTable:
    times = [(MIDNIGHT + minute * MINUTE, key) for key, minute in rows]
    held = [(at, key, at.date()) for at, key in times if at.date() >= since]
    columns = zip(*held, strict=True) if held else ([], [], [])
    values = [pa.array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)]
    rows_held = pa.table(values, schema=COLUMNS)
    write_deltalake(folder, rows_held, mode="overwrite", partition_by=["_event_date"])
    return DeltaTable(folder)


def starting_from(operator: Operator, bronze: DeltaTable, first_ms: int) -> list[dict[str, Any]]:
    every = bronze.to_pyarrow_table().rename_columns({"at": "window_start"})
    found = operator.rows_in(bronze).rows_in_bronze(every).to_pylist()
    return sorted(
        (row for row in found if row["window_start"] >= instant_of(first_ms)),
        key=lambda row: (row["window_start"], row["key"]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("gap", GAPS)
@settings(max_examples=20)
@given(rows=some_rows, frozen=st.integers(-1_500, 1_500), open_for=st.integers(0, 1_000))
@example(rows=BESIDE, frozen=60, open_for=0)
@example(rows=BESIDE, frozen=60, open_for=57)
def test_what_starts_from_the_frontier_on_is_the_same_after_the_older_dates_went(
    gap: str, rows: Rows, frozen: int, open_for: int
) -> None:
    sessions = {"window": {"session": gap}, "group_by": ["key"], "measures": {"n": "count(*)"}}
    pipeline = Place(Path("/unused"), clicks(tables={"t": sessions}, keep="10 days")).pipeline
    operator = operator_of(pipeline, "t")
    frozen_ms = epoch_ms(MIDNIGHT + frozen * MINUTE)
    close_ms = {"t": frozen_ms - epoch_ms(instant_of(0) + open_for * MINUTE)}
    with TemporaryDirectory() as whole, TemporaryDirectory() as cut:
        every = bronze_of(whole, rows)
        kept = bronze_of(cut, rows, first_kept_date(pipeline, frozen_ms, close_ms, every))
        frontier = operator.rows_in(every).frozen_before_ms(frozen_ms)
        assert operator.rows_in(kept).frozen_before_ms(frozen_ms) == frontier
        first = min(frontier, operator.rows_in(every).first_needed_ms(close_ms["t"]))
        assert starting_from(operator, kept, first) == starting_from(operator, every, first)
