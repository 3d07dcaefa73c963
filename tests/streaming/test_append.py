"""Few rows, written by delta-rs, and many, written by Spark, leave the same table and commit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from tests.kit.running import sorted_rows
from tidemark.errors import LeaseLost, StorageUnavailable
from tidemark.storage.delta.commits import rows_appended, rows_between
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.notes import EmittedNote, note_of
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.run.append import append

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAYS = {
    "few": lambda rows, *to: append(rows.toArrow(), *to),
    "many": append,
}
# Every type that a pipeline's column can have, at its ends, with null, NaN and text of all kinds.
ROWS = """
    SELECT * FROM VALUES
        (1Y, -2S, 3, 9223372036854775807L, 1.5F, double('NaN'), 12.34BD, true, 'ä "x" \\\\ %2F',
         X'00ff', DATE '0001-01-01', TIMESTAMP '1582-10-04 00:00:00.123456Z',
         array(1, null), map('k', 1), named_struct('a b', 'x', 'n', null)),
        (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
        (-128Y, 0S, -1, 0L, float('-Infinity'), -0.0D, -99.99BD, false, '', X'',
         DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999Z', array(), map(),
         named_struct('a b', null, 'n', 2))
    AS t(b, s, i, l, f, d, c, t, x, y, day, at, a, m, r)
"""

IS_ROW = ("l > 0", "l is null", "l = 0")


def place_for(folder: Path, rows: DataFrame, partition_by: tuple[str, ...] = ()) -> str:
    ensure_table(TablePlace(str(folder)), TableSpec(rows.schema.json(), partition_by))
    return str(folder)


def going_to(place: str, batch: int = 3) -> tuple[TablePlace, str, int, EmittedNote]:
    return TablePlace(place), "q", batch, noted(batch)


def noted(batch: int) -> EmittedNote:
    return EmittedNote(query="q", batch=batch, close_ms=0)


@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_both_ways_leave_the_same_rows_as_spark_and_others_read_them(
    spark: SparkSession, tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    rows = spark.sql(ROWS)
    found, by_spark = [], []
    for name, by in WAYS.items():
        place = place_for(tmp_path / name, rows, partition_by)
        by(rows, *going_to(place))
        found.append(list(map(repr, sorted_rows(DeltaTable(place).to_pyarrow_table()))))
        read = spark.read.format("delta").load(place).select(rows.columns)
        by_spark.append(sorted(map(repr, read.collect())))
    assert found[0] == found[1]
    assert len(found[0]) == 3
    assert by_spark[0] == by_spark[1] == sorted(map(repr, rows.collect()))


@pytest.mark.parametrize("append", WAYS.values(), ids=WAYS)
def test_a_commit_carries_its_transaction_its_note_and_its_number_of_rows(
    spark: SparkSession, tmp_path: Path, append: object
) -> None:
    rows = spark.range(7)
    place = place_for(tmp_path / "table", rows)
    assert callable(append)
    append(rows, *going_to(place))
    append(rows.where("id > 4"), *going_to(place, batch=4))
    append(rows.where("false"), *going_to(place, batch=5))
    table = DeltaTable(place)
    assert (table.version(), table.transaction_version("q")) == (3, 5)
    assert [note_of(commit) for commit in table.history()] == [noted(5), noted(4), noted(3), None]
    assert rows_appended(table, 0) == 9
    assert rows_between(table, 1, 1) == 7
    assert rows_between(table, 2, 3) == 2


@pytest.mark.parametrize("append", WAYS.values(), ids=WAYS)
def test_a_batch_that_is_committed_is_not_written_again(
    spark: SparkSession, tmp_path: Path, append: object
) -> None:
    place = place_for(tmp_path / "table", spark.range(1))
    assert callable(append)
    for batch in (0, 0, 1, 1, 0):
        append(spark.range(7), *going_to(place, batch))
    assert DeltaTable(place).to_pyarrow_table().num_rows == 14


@pytest.mark.parametrize("append", WAYS.values(), ids=WAYS)
def test_a_lease_that_is_lost_while_rows_are_computed_is_found_before_the_commit(
    spark: SparkSession, tmp_path: Path, append: object
) -> None:
    place = place_for(tmp_path / "table", spark.range(1))

    def lost() -> None:
        raise LeaseLost("gone")

    assert callable(append)
    with pytest.raises(LeaseLost):
        append(spark.range(7), TablePlace(place, fence=lost), "q", 0, noted(0))
    assert DeltaTable(place).version() == 0


@pytest.mark.parametrize("append", WAYS.values(), ids=WAYS)
def test_a_table_that_is_fenced_after_the_check_refuses_the_commit(
    spark: SparkSession, tmp_path: Path, append: object
) -> None:
    place = place_for(tmp_path / "table", spark.range(1))
    fence = partial(fence_tables, [TablePlace(place)], 8)
    assert callable(append)
    with pytest.raises(StorageUnavailable, match=r"the rows of batch 3 were appended"):
        append(spark.range(7), TablePlace(place, fence=fence), "q", 3, noted(3))
    assert DeltaTable(place).to_pyarrow_table().num_rows == 0


@pytest.mark.parametrize(
    "name",
    ["s", "at", *(pytest.param(name, marks=pytest.mark.long) for name in ("b", "i", "l", "day"))],
)
def test_readers_that_skip_files_by_what_the_commit_says_of_them_find_each_row(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = spark.sql(ROWS)
    place = place_for(tmp_path / "table", rows)
    for batch in range(3):
        append(rows.coalesce(1).where(f"{IS_ROW[batch]}"), *going_to(place, batch))
    by_spark = spark.read.format("delta").load(place)
    dataset = DeltaTable(place).to_pyarrow_dataset()
    assert by_spark.where(f"{name} is null").count() == 1
    assert dataset.to_table(filter=ds.field(name).is_null()).num_rows == 1
    for value in rows.where(f"{name} is not null").select(name).toArrow()[name]:
        assert dataset.to_table(filter=ds.field(name) == value).num_rows == 1
        wanted = spark.createDataFrame(pa.table({name: pa.chunked_array([[value]])}))
        (text,) = wanted.selectExpr(f"cast({name} as string)").first()
        kind = rows.schema[name].dataType.simpleString()
        assert by_spark.where(f"{name} = cast('{text}' as {kind})").count() == 1


def test_a_null_in_a_column_that_is_never_null_is_refused_before_the_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_for(tmp_path / "table", spark.range(1).select("id"))
    assert not DeltaTable(place).schema().fields[0].nullable
    rows = spark.range(7).selectExpr("if(id = 5, null, id) as id")
    with pytest.raises(StorageUnavailable, match="nulls in id"):
        append(rows, *going_to(place))
    assert DeltaTable(place).version() == 0
