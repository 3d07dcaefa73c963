from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from math import nan
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tidemark.checkpoint.rewind.table_commits import gone_files
from tidemark.gold.retention import rows_of_dates
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.sources.delta.table import open_table
from tidemark.storage.delta.dataset import data_files, dataset_of, rows_on
from tidemark.storage.delta.notes import ErasedNote, RecomputedNote
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import Leaving, add_files, rewrite_files, write_parquet
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.files import stat_files
from tidemark.upkeep.maintenance.plan_table import MaintainedTable, plan_table

NOTE = RecomputedNote(cause="late", run="run")


def test_a_local_table_is_read_without_python_in_arrows_threads(tmp_path: Path) -> None:
    """Such a thread aborts the process where it closes a file while the interpreter ends."""
    place = tmp_path / "a lake é" / "t"
    rows = pa.table({"n": [1, 2], "p": ["x y", "z%/é"]})
    write_deltalake(place, rows, partition_by=["p"])
    found = dataset_of(DeltaTable(place))
    assert isinstance(found.filesystem, SubTreeFileSystem)
    assert isinstance(found.filesystem.base_fs, LocalFileSystem)
    assert sorted(found.to_table().to_pylist(), key=lambda row: row["n"]) == rows.to_pylist()
    assert dataset_of(DeltaTable(place), "p = 'x y'").count_rows() == 1


@pytest.mark.parametrize("is_uri", [False, True], ids=["path", "URI"])
def test_files_are_where_a_table_is_said_to_have_them(tmp_path: Path, is_uri: bool) -> None:
    place = tmp_path / "a lake é" / "100%"
    for number in (1, 2):
        rows = pa.table({"n": [number], "p": ["z%/é x"]})
        write_deltalake(place, rows, mode="append", partition_by=["p"])
    named = TablePlace(place.as_uri() if is_uri else str(place))
    files = data_files(named, named.existing())
    assert len(files) == 2
    assert None not in stat_files(files, {}).values()
    named.existing().optimize.compact()
    assert gone_files(named, named.existing(), 1) == ()


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([None, 1, 2])), min_size=1, max_size=4))
@settings(max_examples=20)
def test_rows_of_files_without_a_column_are_found_by_its_being_null(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[bool, int | None]]
) -> None:
    """Arrow and DuckDB pass none of them over, whatever the statistics of the other files say."""
    place, day = tmp_path_factory.mktemp("t"), date(2026, 7, 1)
    for number, (has_column, value) in enumerate(files):
        rows = {"day": [day, None], "n": [number, -number]}
        values = {"later": pa.array([value, value], pa.int64())} if has_column else {}
        write_deltalake(
            place,
            pa.table(rows | values),
            mode="append",
            schema_mode="merge",
            partition_by=["day"],
        )
    if not any(has_column for has_column, _ in files):
        return
    known = dataset_of(DeltaTable(place))
    expected = sorted(
        n
        for number, (has, value) in enumerate(files)
        if not has or value is None
        for n in (number, -number)
    )
    is_null = ds.field("later").is_null()
    assert sorted(known.to_table(filter=is_null).column("n").to_pylist()) == expected
    with duckdb_in_utc() as connection:
        connection.register("known", known)
        found = connection.execute("SELECT n FROM known WHERE later IS NULL").fetchall()
    assert sorted(n for (n,) in found) == expected
    assert known.count_rows(filter=ds.field("day") == day) == len(files)
    assert known.count_rows(filter=ds.field("later") == 2) == 2 * sum(
        has and value == 2 for has, value in files
    )


def test_rows_of_files_whose_texts_the_log_does_not_tell_are_found_by_them(tmp_path: Path) -> None:
    """So of each batch of more than some thousand rows, and of all of bronze once it is widened."""
    place, at = TablePlace(str(tmp_path), {}), datetime(2026, 7, 1, 12, 0, 0, 1, UTC)
    at_type = pa.timestamp("us", "UTC")
    for number, part in enumerate(("x", "z", None)):
        rows = pa.table(
            {
                "part": pa.array([part] * 3, pa.string()),
                "text": ["a", "b", None],
                "n": [number, None, number + 1],
                "at": pa.array([at, at, None], at_type),
            }
        )
        if number == 0:
            write_deltalake(tmp_path, rows, partition_by=["part"])
            continue
        table = place.existing()
        files = write_parquet(rows, place, f"{number}", rows.schema, ["part"])
        add_files(table, files, "the rows", Transaction("query", number), NOTE)
    known = dataset_of(place.existing())
    for asked, found in (
        (ds.field("text") == "a", 3),
        (ds.field("text").isin(["a", "b"]), 6),
        ((ds.field("text") >= "a") & (ds.field("text") <= "a"), 3),
        (ds.field("text").is_null(), 3),
        (ds.field("part").is_null(), 3),
        ((ds.field("part") == "z") & (ds.field("text") == "b"), 1),
        (ds.field("n") == 2, 2),
        (ds.field("at") == pa.scalar(at, at_type), 6),
    ):
        assert known.count_rows(filter=asked) == found, asked
    with duckdb_in_utc() as connection:
        connection.register("known", known)
        sql = "SELECT count(*) FROM known WHERE text = 'a'"
        assert connection.execute(sql).fetchall() == [(3,)]
    # Numbers and times pass files over as before.
    assert [one.path for one in known.get_fragments(filter=ds.field("n") == 3)] == [
        one.path for one in known.get_fragments(filter=ds.field("part").is_null())
    ]
    assert not [
        *known.get_fragments(filter=ds.field("at") > pa.scalar(at.replace(minute=1), at_type))
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal128(38, 0), ["12345678901234567890", "12345678901234567891"]),
        (pa.decimal128(18, 3), ["999999999999999.999"]),
        (pa.decimal128(38, 2), ["0.10", "999999999999999999999999999999999999.99"]),
    ],
)
def test_rows_are_found_by_decimals_of_any_length(
    tmp_path: Path, kind: pa.DataType, values: list[str]
) -> None:
    decimals = [Decimal(value) for value in values]
    write_deltalake(tmp_path, pa.table({"d": pa.array(decimals, kind)}))
    known = dataset_of(DeltaTable(tmp_path))
    assert [known.count_rows(filter=ds.field("d") == pa.scalar(one, kind)) for one in decimals] == [
        1 for _ in decimals
    ]


def test_nan_is_within_no_bounds(tmp_path: Path) -> None:
    """As DuckDB and Spark have it, it is greater than all numbers."""
    numbers = [1.0, nan, 1.0, 5.0]
    write_deltalake(tmp_path, pa.table({"x": numbers}))
    known = dataset_of(DeltaTable(tmp_path))
    with duckdb_in_utc() as connection:
        connection.register("known", known)
        for condition, count in (("x <= 5", 3), ("x > 5", 1), ("x >= 1", 4), ("x = 1", 2)):
            sql = f"SELECT count(*) FROM known WHERE {condition}"
            assert connection.execute(sql).fetchall() == [(count,)], condition


@pytest.mark.parametrize("zone", [UTC, None])
def test_the_first_and_the_last_time_of_the_calendar_are_found(
    tmp_path: Path, zone: tzinfo | None
) -> None:
    """Where `valid_to` has no end people write the last one."""
    first = datetime(1, 1, 1, tzinfo=zone)
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
    _each_is_found(tmp_path, pa.array([first, last], pa.timestamp("us", "UTC" if zone else None)))


def test_a_table_whose_log_tells_bounds_outside_of_the_calendar_is_read_and_its_files_are_told(
    tmp_path: Path,
) -> None:
    """As former versions wrote them; Python has no such days and times."""
    place, first, behind = TablePlace(str(tmp_path)), date(2026, 7, 1), 2_932_897
    for day in (behind - 1, behind, -719_163):
        rows = {
            "n": pa.array([day]),
            "day": pa.array([day], pa.int32()).view(pa.date32()),
            "at": pa.array([day * 86_400 * 10**6]).view(pa.timestamp("us", "UTC")),
            "_event_date": [first],
        }
        write_deltalake(tmp_path, pa.table(rows), mode="append", partition_by=["_event_date"])
    table = place.existing()
    for known in (dataset_of(table), rows_on(table, [first])):
        far = pa.scalar(behind, pa.int32()).cast(pa.date32())
        assert known.to_table(["n"], filter=ds.field("day") == far)["n"].to_pylist() == [behind]
    assert rows_on(table, [date(2026, 7, 2)]).count_rows() == 0
    target = MaintainedTable("bronze", place)
    assert plan_table(target, table, Maintenance(), datetime.now(UTC)).parts[0].number == 3
    assert rows_of_dates(table, (first,)) == 3
    assert len(open_table(place.uri, {}).snapshot(2)) == 3
    names = [Path(path).name for path in data_files(place, table)]
    leaving, now = Leaving(2, names, 3), datetime.now(UTC)
    rewrite_files(
        table, place, leaving, [], "the rows", ErasedNote(id="20260101T000000Z", rows=3), now
    )
    assert dataset_of(place.existing()).count_rows() == 0


@pytest.mark.slow
def test_rows_with_times_are_found_whatever_delta_tells_of_their_bounds(tmp_path: Path) -> None:
    random, first = Random(1), datetime(1, 1, 1, tzinfo=UTC)
    micros = [random.randrange(9_998 * 365 * 86_400 * 10**6) for _ in range(200)]
    micros += [2025 * 365 * 86_400 * 10**6 + random.randrange(10**6) for _ in range(100)]
    values = [first + timedelta(microseconds=one) for one in micros]
    _each_is_found(tmp_path, pa.array(values, pa.timestamp("us", "UTC")))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_files_with_days_and_times_outside_the_calendar_are_added_and_found(
    tmp_path: Path, kind: pa.DataType
) -> None:
    """As those that a derived column has of milliseconds, which it takes for seconds."""
    place = TablePlace(str(tmp_path), {})
    of_kind = pa.int32() if kind == pa.date32() else pa.int64()
    a_day = 1 if kind == pa.date32() else 86_400 * 10**6
    days = (-719_163, 0, 2_932_897)  # the last one before 0001-01-01, the first behind 9999-12-31
    values = pa.array([day * a_day for day in days], of_kind).view(kind)
    rows = pa.table({"n": [1, 2, 3], "v": values})
    DeltaTable.create(place.uri, rows.schema)
    files = write_parquet(rows, place, "0", rows.schema, [])
    add_files(place.existing(), files, "the rows", Transaction("query", 0), NOTE)
    known = dataset_of(place.existing())
    for number, value in enumerate(values, 1):
        found = known.to_table(columns=["n"], filter=ds.field("v") == value)
        assert found["n"].to_pylist() == [number]
    assert not [*known.get_fragments(filter=ds.field("n") == 4)]


def _each_is_found(place: Path, values: pa.Array[Any]) -> None:
    for start in range(0, len(values), 7):
        write_deltalake(place, pa.table({"v": values.slice(start, 7)}), mode="append")
    known = dataset_of(DeltaTable(place))
    lost = [one for one in values if not known.count_rows(filter=ds.field("v") == one)]
    assert not lost
