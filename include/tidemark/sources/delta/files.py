"""The files whose rows an offset brings, and what of them is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemark.sources.delta.offsets import DeltaPart, Offset

if TYPE_CHECKING:
    from tidemark.sources.delta.log import AddedFile
    from tidemark.sources.delta.slices import DeltaSlice
    from tidemark.sources.delta.table import SourceTable


def files_of(table: SourceTable, offset: Offset) -> Iterator[tuple[DeltaPart, AddedFile]]:
    """The files whose rows a batch brings, in order; of versions that change rows none."""
    if offset.snapshot is not None:
        for file in offset.cut(offset.snapshot, table.snapshot(offset.snapshot)):
            yield DeltaPart(offset.snapshot, file.path), file
    for number, version in table.versions(offset.versions):
        if version is not None and not version.changes_rows:
            for file in offset.cut(number, version.files):
                yield DeltaPart(number, file.path), file


def slice_of(
    table: SourceTable,
    part: DeltaPart,
    file: AddedFile,
    most: int | None = None,
    rows: tuple[int, ...] | None = None,
) -> DeltaSlice:
    """A file's rows, without those deleted; `most`: the first of them; `rows`: those at these
    places."""
    # Arrow takes a tenth of a second to load, which a Dag file has not.
    from tidemark.sources.delta.slices import DeltaSlice

    uri, partition = table.uri_of(file), table.partition_of(file)
    return DeltaSlice(
        str(part),
        part.version,
        file.path,
        uri,
        file.bytes,
        partition,
        dict(table.options),
        most,
        rows,
        file.deleted,
    )


def first_rows_of(table: SourceTable, offset: Offset, most: int) -> dict[str, int]:
    """Of which parts how many rows are the first `most` of a batch. A file whose number of rows
    the log does not tell is taken for as many as are asked for, and the last one."""
    taken: dict[str, int] = {}
    left = most
    for part, file in files_of(table, offset):
        rows = left if file.rows is None else min(left, file.rows)
        if rows:
            taken[str(part)] = rows
            left -= rows
        if not left:
            break
    return taken
