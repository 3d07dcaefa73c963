"""A table's rows as a dataset of Arrow, which are read as far as somebody asks.

delta-rs gives Arrow a file system in Python. A thread of Arrow that closes a file of it while the
interpreter ends has to wait for the interpreter, and aborts the process instead: 6 of 110 scripts
that read a table and ended, and none of 100 by Arrow's own file system. So local tables are read by
that. On object storage the one of delta-rs stays, which alone knows the table's options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from tidemark.pipeline.settings.storage_options import is_local, local_path


def dataset_of(table: DeltaTable, file_pruning_predicate: Any = None) -> ds.Dataset:
    """The rows of the table at its version; files are left out by the predicate, as delta-rs
    reads it."""
    read: Callable[..., ds.Dataset] = table.to_pyarrow_dataset
    return read(
        file_pruning_predicate=file_pruning_predicate, filesystem=_own_files(table.table_uri)
    )


def _own_files(uri: str) -> FileSystem | None:
    if not is_local(uri):
        return None
    return SubTreeFileSystem(local_path(uri), LocalFileSystem())
