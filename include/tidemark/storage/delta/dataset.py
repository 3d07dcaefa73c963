"""A table's rows as a dataset of Arrow, which are read as far as somebody asks.

delta-rs gives Arrow a file system in Python. A thread of Arrow that closes a file of it while the
interpreter ends has to wait for the interpreter, and aborts the process instead: 6 of 110 scripts
that read a table and ended, and none of 100 by Arrow's own file system. So local tables are read by
that. On object storage the one of delta-rs stays, which alone knows the table's options.

Of a file without a column that other files have, delta-rs (1.6.6) tells Arrow `column >= null`,
from which Arrow concludes that no row of it is null: a filter for null, DuckDB's too, passes all of
them over. So Arrow is told no more of such a file than its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from tidemark.pipeline.settings.storage_options import is_local, local_path

# In Arrow's text of an expression.
_NULL_BOUND = ">= null["


def dataset_of(table: DeltaTable, file_pruning_predicate: Any = None) -> ds.Dataset:
    """The rows of the table at its version; files are left out by the predicate, as delta-rs
    reads it."""
    read: Callable[..., ds.Dataset] = table.to_pyarrow_dataset
    known = read(
        file_pruning_predicate=file_pruning_predicate, filesystem=_own_files(table.table_uri)
    )
    if not (isinstance(known, ds.FileSystemDataset) and _has_files_without_a_column(table)):
        return known
    columns = table.metadata().partition_columns
    fragments = [_told_less(fragment, columns) for fragment in known.get_fragments()]
    return ds.FileSystemDataset(fragments, known.schema, known.format, known.filesystem)


def _has_files_without_a_column(table: DeltaTable) -> bool:
    """Some at least, of those with statistics of their columns."""
    files = pa.table(table.get_add_actions(flatten=True))
    counts = (name for name in files.column_names if name.startswith("null_count."))
    return any(files.column(name).null_count > 0 for name in counts)


def _told_less(fragment: Any, columns: Sequence[str]) -> Any:
    if _NULL_BOUND not in str(fragment.partition_expression):
        return fragment
    known = ds.get_partition_keys(fragment.partition_expression)
    parts = (
        ds.field(name).is_null() if known[name] is None else ds.field(name) == known[name]
        for name in columns
        if name in known
    )
    condition = reduce(and_, parts, ds.scalar(True))
    return fragment.format.make_fragment(
        fragment.path, filesystem=fragment.filesystem, partition_expression=condition
    )


def _own_files(uri: str) -> FileSystem | None:
    if not is_local(uri):
        return None
    return SubTreeFileSystem(local_path(uri), LocalFileSystem())
