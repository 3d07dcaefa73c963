"""What is found of a large lookup joins in Spark as all of its copy does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tidemark.operators import looked_up_rows
from tidemark.operators.looked_up_rows import rows_found
from tidemark.operators.lookups import LookedUp, LookupCopy
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Lookup, WindowTable
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.streaming.arrow_rows import frame_beside_plan, frame_of
from tidemark.streaming.inputs import counted_rows

DAY = datetime(2026, 7, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)
INSTANT = pa.timestamp("us", "UTC")
# Two values of each type that a lookup's columns can have.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["é", ""]),
    "byte": (pa.int8(), [-128, 127]),
    "short": (pa.int16(), [-1, 1]),
    "int": (pa.int32(), [-(2**31), 1]),
    "long": (pa.int64(), [2**53 + 1, -(2**63)]),
    "decimal(38,2)": (pa.decimal128(38, 2), [Decimal("0.10"), Decimal(f"{10**36 - 1}.99")]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": (INSTANT, [DAY + TICK, datetime(1969, 1, 1, tzinfo=UTC)]),
}
OF_VALUES_ALONE = {
    "double": (pa.float64(), [float("nan"), -0.0]),
    "float": (pa.float32(), [float("inf"), 0.1]),
    "binary": (pa.binary(), [b"\x00", b""]),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("on_missing", [None, "leave_out"])
def test_rows_are_looked_up_alike_whatever_their_keys(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    on_missing: str | None,
) -> None:
    monkeypatch.setattr(looked_up_rows, "FEW_ROWS", 0)
    arrow, (first, second) = VALUES[kind]
    every = VALUES | OF_VALUES_ALONE
    columns = {f"v{place}": text for place, text in enumerate(every)} | {"since": "timestamp"}
    said = {"table": "x", "on": {"k": "t"}, "columns": columns, "as_of": ["since"]}
    # Of the first key two rows, one after the other, and another key that nobody asks for.
    copied = {"_on_0": pa.array([first, first, second], arrow)}
    for (of, (one, other)), name in zip(every.values(), columns, strict=False):
        copied[name] = pa.array([one, None, other], of)
    begins = pa.array([DAY, DAY + 2 * TICK, DAY], INSTANT)
    ends = pa.array([DAY + 2 * TICK, None, None], INSTANT)
    copied |= {"since": begins, "_from": begins, "_to": ends}
    write_deltalake(tmp_path / "copy", pa.table(copied))
    copy = LookupCopy(
        TablePlace(str(tmp_path / "copy"), {}), DeltaTable(tmp_path / "copy"), 1, "", ""
    )
    lookup = Lookup.model_validate(said | ({"on_missing": on_missing} if on_missing else {}))
    table = WindowTable.model_validate(
        {"window": {"length": "1 hour"}, "group_by": ["x_v0"], "measures": {"n": "count(x.v1)"}}
    )
    operator = Windows("at", table, lookups={"x": LookedUp(lookup, {"x_v0": "v0"}, copy)})
    times = pa.array([DAY - TICK, DAY, DAY + TICK, DAY + 2 * TICK, DAY + 3 * TICK, DAY], INSTANT)
    rows = pa.table(
        {
            "n": range(6),
            "at": times,
            "_event_time": times,
            "k": pa.array([first] * 5 + [None], arrow),
            # What a former file derived.
            "X": [1] * 6,
            "X_V0": ["former"] * 6,
        }
    )
    with duckdb_in_utc() as connection:
        connection.register("r", rows)
        found = rows_found(connection, "r", operator.lookups, {"k": "k"})
    assert found["x"].num_rows == 2
    bronze = frame_of(spark, rows)
    of_found, of_all = (
        counted_rows(bronze, operator, looked_up=one) for one in (found, looked_up_rows.NOTHING)
    )
    assert of_found.schema.simpleString() == of_all.schema.simpleString()
    columns = [name.lower() for name in of_all.columns]
    assert (columns.count("x"), columns.count("x_v0")) == (1, 1)
    results = [of.orderBy("n").toArrow() for of in (of_found, of_all)]
    # By their texts, for NaN is not itself.
    assert str(results[0].to_pylist()) == str(results[1].to_pylist())
    assert results[0].num_rows == (4 if on_missing else 6)


def test_rows_beside_the_plan_leave_the_session_as_it_was(spark: SparkSession) -> None:
    setting = "spark.sql.execution.arrow.localRelationThreshold"
    before = spark.conf.get(setting)
    frame = frame_beside_plan(spark, pa.table({"a": pa.array([1, None], pa.int64())}))
    assert spark.conf.get(setting) == before
    assert [row.a for row in frame.collect()] == [1, None]
    assert "LocalTableScan" not in str(frame._jdf.queryExecution().executedPlan())
    assert frame_beside_plan(spark, pa.table({"a": pa.array([], pa.int64())})).collect() == []
