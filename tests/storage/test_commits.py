"""What a table's commits say of themselves, read by delta-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tidemark.storage.delta.commits import rows_between


def test_rows_are_counted_over_the_versions_and_unknown_where_the_log_was_cleaned(
    tmp_path: Path,
) -> None:
    for rows in (1, 2, 4):
        write_deltalake(str(tmp_path), pa.table({"n": list(range(rows))}), mode="append")
    table = DeltaTable(str(tmp_path))
    assert [rows_between(table, *ends) for ends in ((0, 2), (1, 1), (1, 2))] == [7, 2, 6]
    table.create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    cleaned = DeltaTable(str(tmp_path))
    assert rows_between(cleaned, 0, 2) is None
    assert rows_between(cleaned, 1, 2) == 6
