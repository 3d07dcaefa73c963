from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc


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
