"""Tables that stay open: an answer holds for a version, and no longer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tidemark.page.tables import OpenTables
from tidemark.storage.delta.place import TablePlace


def test_an_answer_is_worked_out_once_for_each_version_and_table(tmp_path: Path) -> None:
    place, asked = TablePlace(str(tmp_path / "table")), []
    tables = OpenTables()

    def rows(table: DeltaTable) -> int:
        asked.append(table.version())
        return pa.table(table.to_pyarrow_table()).num_rows

    def write(number: int) -> None:
        write_deltalake(place.uri, pa.table({"a": [0] * number}), mode="append")

    assert tables.ask(place, "rows", rows) is None
    write(1)
    assert [tables.ask(place, "rows", rows) for _ in range(3)] == [1, 1, 1]
    write(2)
    assert [tables.ask(place, "rows", rows) for _ in range(2)] == [3, 3]
    assert tables.ask(place, "others", rows) == 3
    assert asked == [0, 1, 1]
    # Another table of as many versions lies there now, and then none.
    shutil.rmtree(place.uri)
    write(5)
    write(5)
    assert tables.ask(place, "rows", rows) == 10
    shutil.rmtree(place.uri)
    assert tables.ask(place, "rows", rows) is None
