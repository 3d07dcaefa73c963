"""Where the tables of `ops` of a pipeline are: each in the pipeline's own folder.

Before, all pipelines of a root shared five tables below `ROOT/ops`. A pipeline's rows are taken
from there by whoever writes one of its tables first (`move_ops_table`), and read there until then.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from tidemark.commit_point import commit_point
from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.create import PROPERTIES
from tidemark.storage.delta.damage import LOG
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileInTheWay, write_bytes
from tidemark.storage.json_text import json_value

_ENTRY = re.compile(r"(\d{20})\.(?:json|checkpoint\b.*parquet)")


@dataclass(frozen=True)
class OpsPlace(TablePlace):
    """One of a pipeline's tables; `shared` is the one that it had its rows in before."""

    pipeline: str = ""
    shared: str = ""

    def open(self) -> DeltaTable | None:
        """The table; where it is not there yet, the shared one, which has rows of others too."""
        own = self.own.open()
        return self.not_moved() if own is None else own

    @property
    def own(self) -> TablePlace:
        """The pipeline's own table and no other."""
        return TablePlace(self.uri, self.options, self.fence)

    @property
    def former(self) -> TablePlace:
        """The shared table, whoever's rows it has."""
        return TablePlace(self.shared, self.options)

    @property
    def has_former(self) -> bool:
        """Is there anything in the place of the shared table?"""
        folder, _, name = self.shared.rpartition("/")
        return bool(folder) and name in FilePlace(folder, self.options).names()

    def not_moved(self) -> DeltaTable | None:
        """The shared table; None where there is none, or the pipeline's rows were taken from it:
        what it still holds of them is out of date."""
        shared = self.former.open() if self.has_former else None
        if shared is None or shared.transaction_version(moved_name(self.pipeline)) is not None:
            return None
        return shared


def moved_name(pipeline: str) -> str:
    """The app transaction that says of a shared table that the pipeline has a table of its own."""
    return f"{pipeline}/moved"


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


def move_ops_table(
    place: OpsPlace, moving: Callable[[pa.Table], pa.Table] = as_they_are
) -> DeltaTable | None:
    """The pipeline's own table, made of what the shared one has of it where it is not there yet;
    None where neither is. `moving` makes the own rows of those.

    Killed in between, the table is there without the note in the shared one. Whoever would write
    to it next comes here first, and finds it at its first version.
    """
    own = place.own.open()
    if own is None:
        shared = place.not_moved()
        if shared is None:
            return None
        _move(place, shared, moving)
        place.own.is_made()
        own = place.own.existing()
    if own.version() == 0 and (shared := place.not_moved()) is not None:
        note_moved(place, shared)
    return own


@commit_point(
    "ops table moved",
    after_a_kill="before: the next writer makes the table; after: the next one notes the move",
)
def _move(place: OpsPlace, shared: DeltaTable, moving: Callable[[pa.Table], pa.Table]) -> None:
    """All of the pipeline's rows, and what it has counted by, in one commit, the table's first.

    Two that make a table at once both commit by delta-rs (1.6.6), one after the other, and so have
    its rows twice. So it is made in a folder of this machine and copied, its log entry last, which
    only one creates; files of the other are no part of it.
    """
    known = dataset_of(shared, f"pipeline = '{place.pipeline}'")
    rows = moving(known.to_table(filter=ds.field("pipeline") == place.pipeline))
    counted = [
        Transaction(name, version)
        for name in _own_names(place, shared, rows)
        if (version := shared.transaction_version(name)) is not None
    ]
    with TemporaryDirectory() as folder:
        write_deltalake(
            folder,
            conformed(rows, schema_of(shared)),
            description=f"Of {place.pipeline}; its rows of before are from {place.shared}",
            configuration=PROPERTIES,
            commit_properties=CommitProperties(app_transactions=counted or None),
        )
        entry = f"{LOG}/{0:020}.json"
        for file in (*Path(folder).glob("*.parquet"), Path(folder, entry)):
            name = file.relative_to(folder).as_posix()
            with suppress(FileInTheWay):
                write_bytes(place.below(name), file.read_bytes(), place.options, create_only=True)


@commit_point(
    "move of an ops table noted",
    after_a_kill="before: the next writer notes it; after: nothing is due",
)
def note_moved(place: OpsPlace, shared: DeltaTable) -> None:
    """In the shared table, so that nobody takes its rows for those of a table that was lost."""
    noted = CommitProperties(app_transactions=[Transaction(moved_name(place.pipeline), 0)])
    try:
        shared.create_write_transaction(
            [],
            "append",
            shared.schema(),
            partition_by=shared.metadata().partition_columns,
            commit_properties=noted,
        )
    except DeltaError:
        if place.not_moved() is not None:
            raise


def _own_names(place: OpsPlace, shared: DeltaTable, rows: pa.Table) -> list[str]:
    """The app transactions of a pipeline: by its name, or by its queries' ids alone. Also of those
    whose rows are gone."""
    own = set(rows["query"].to_pylist()) if "query" in rows.column_names else set()
    names = set(transaction_names(place.former, shared.version()))
    return sorted(name for name in names if name.startswith(f"{place.pipeline}/") or name in own)


def transaction_names(place: TablePlace, version: int) -> Iterator[str]:
    """The app transactions of a table: read from the log's newest checkpoint and the entries
    behind it, for delta-rs tells the version of a name, and no names."""
    log = place.folder(LOG)
    names = (uri.rpartition("/")[2] for uri in log.files())
    entries = {name: int(found[1]) for name in names if (found := _ENTRY.fullmatch(name))}
    whole = {name: at for name, at in entries.items() if at <= version and ".checkpoint" in name}
    base = max(whole.values(), default=-1)
    for name, at in entries.items():
        if name in whole and at == base:
            actions: pa.Table = pq.read_table(io.BytesIO(log.read(name)), columns=["txn"])
            known = actions.column("txn").to_pylist()
        elif name not in whole and base < at <= version:
            lines = (json_value(line, whole=int) for line in log.read(name).splitlines())
            known = [line.get("txn") for line in lines]
        else:
            continue
        yield from (one["appId"] for one in known if one is not None)
