from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tidemark.storage.delta.dataset import dataset_of


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
