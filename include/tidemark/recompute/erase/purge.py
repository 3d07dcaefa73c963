"""What held erased rows goes: all below a pipeline's folder that is not named here.

What stays is: the files of the tables' newest versions, with the log's entry and checkpoint of that
version; the checkpoints in use, and contracts; the rows of `ops`, without what they tell of values;
copies of lookups, which are of others; the lease, the records of erasures, and this act's own
result. So what a former version left, or a table that is no longer in the file, goes too.

Removing is no commit. Killed anywhere, a repetition removes what is left: tables are read by what
stays of them all the time, the entries of a log going the oldest first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import ErasureUnproven
from tidemark.gold.views import is_of_gold
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import OPS_TABLES
from tidemark.recompute.erase.change import Erasure
from tidemark.runs.unfinished_act import unfinished_mark
from tidemark.storage.delta.damage import LOG
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.carry_out import blank_values, remove, write_checkpoint
from tidemark.upkeep.maintenance.plan_table import name_below

_ENTRY = re.compile(r"(\d{20})\.")
# Contracts of all generations, for no number is used twice; records of erasures.
_STAYING = re.compile(r"checkpoints/(ingest|[^/]+/\d+)\.contract\.json|erasures/[^/]+\.json")
# Where a value of `ops` was.
_BLANK = "erased"


@dataclass(frozen=True)
class _NamedByLog:
    """What stays of a table's folder, by its log at a version. `own`: only the lease's owner writes
    to it, so that what its log does not name is nobody's; `files` are those that it has then, else
    those that the log says are gone."""

    table: DeltaTable
    own: bool
    files: frozenset[str]

    @classmethod
    def of(cls, table: DeltaTable, own: bool) -> _NamedByLog:
        if own:
            added: list[dict[str, Any]] = pa.table(table.get_add_actions()).to_pylist()
            return cls(table, own, frozenset(unquote(one["path"]) for one in added))
        gone = table.vacuum(0, dry_run=True, enforce_retention_duration=False)
        return cls(table, own, frozenset(gone))

    @property
    def checkpoint(self) -> str:
        return f"{self.table.version():020}.checkpoint.parquet"

    def stays(self, name: str) -> bool:
        """By its name below the table's folder."""
        folder, _, entry = name.rpartition("/")
        if folder != LOG:
            return not name.startswith(f"{LOG}/") and (name in self.files) is self.own
        version = self.table.version()
        found = _ENTRY.match(entry)
        is_newer = found is not None and not self.own and int(found[1]) > version
        return is_newer or entry in ("_last_checkpoint", f"{version:020}.json", self.checkpoint)


@dataclass(frozen=True)
class _Kept:
    """What stays, by names below the pipeline's folder: these files, all in these folders, and of
    tables what their logs name."""

    files: frozenset[str]
    folders: tuple[str, ...]
    tables: Mapping[str, _NamedByLog]

    def keeps(self, name: str) -> bool:
        if name in self.files or name.startswith(self.folders) or _STAYING.fullmatch(name):
            return True
        of = next((one for one in self.tables if name.startswith(f"{one}/")), None)
        return of is not None and self.tables[of].stays(name.removeprefix(f"{of}/"))


def purge(change: Erasure, pipeline: Pipeline, warehouse: Warehouse, own: Collection[str]) -> None:
    """Remove it; safe to repeat. `own` are the places of this act's result and its log.
    ErasureUnproven where something is left."""
    for name, blanked in _BLANKED.items():
        place = warehouse.ops_table(name).own
        if (table := place.open()) is not None:
            place.fence()
            blank_values(table, pipeline.name, blanked)
    kept = _kept(pipeline, warehouse, own, change.id)
    for name, one in kept.tables.items():
        place = warehouse.table_at(f"{warehouse.places.folder}/{name}")
        if one.checkpoint not in place.folder(LOG).names():
            place.fence()
            write_checkpoint(one.table)
    remove(warehouse.file_at(warehouse.places.folder), tuple(_going(kept, warehouse).values()))
    if left := _going(_kept(pipeline, warehouse, own, change.id), warehouse):
        raise ErasureUnproven(
            f"{len(left):,} files of {warehouse.places.folder} that were to go are there, "
            f"{next(iter(left))} among them. No run starts. Does something write there? `tidemark "
            f"erase {pipeline.name} --apply` removes them."
        )


def planned_purge(pipeline: Pipeline, warehouse: Warehouse) -> dict[str, int]:
    """How many files go of what is there now, by the folder that they are in: a dry run's. What is
    in use by now goes too, once the tables have begun their new generations."""
    going = _going(_kept(pipeline, warehouse, (), None), warehouse)
    return dict(sorted(Counter(name.partition("/")[0] for name in going).items()))


def _kept(pipeline: Pipeline, warehouse: Warehouse, own: Collection[str], act: str | None) -> _Kept:
    places = warehouse.places
    checkpoint = places.ingest_checkpoint
    folders = [places.other_readers, places.lookup(""), places.lease, checkpoint]
    folders += [f"{places.erasures}/{act}"] if act else []
    files = [*own, places.planned_columns, unfinished_mark(warehouse), places.source_notes]
    tables = [warehouse.bronze, warehouse.rejects, warehouse.retracted, warehouse.replayed]
    for name, of in pipeline.tables.items():
        gold = warehouse.gold(name).open()
        used = generation_of(gold)
        tables += [warehouse.gold(name), warehouse.changes(name, used)]
        views = [warehouse.view(name, view) for view in of.views]
        tables += [view for view in views if gold is not None and is_of_gold(view, gold)]
        query = places.query_checkpoint(name, used)
        folders += [query, f"{query}.clocks"]
    ops = [warehouse.ops_table(name).own for name in OPS_TABLES]

    def below(place: str) -> str:
        return name_below(places.folder, place)

    named = {
        below(place.uri): _NamedByLog.of(table, place not in ops)
        for place in (*tables, *ops)
        if (table := place.open()) is not None
    }
    return _Kept(
        frozenset(map(below, files)), tuple(f"{below(one).rstrip('/')}/" for one in folders), named
    )


def _going(kept: _Kept, warehouse: Warehouse) -> dict[str, str]:
    """The places of what goes, by its names below the pipeline's folder, in their order."""
    folder = warehouse.places.folder
    names = {name_below(folder, place): place for place in warehouse.file_at(folder).files()}
    return {name: names[name] for name in sorted(names) if not kept.keeps(name)}


def _of_quality(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "observed": _BLANK, "examples": "[]", "data_docs": None}


def _of_upkeep(row: dict[str, Any]) -> dict[str, Any]:
    told = row.get("retraction")
    if told is None:
        return row
    rows = f"{told['rows']} rows"
    return {**row, "verdict": rows, "retraction": {**told, "condition": _BLANK}}


def _of_runs(row: dict[str, Any]) -> dict[str, Any]:
    return row if row.get("error") is None else {**row, "error": _BLANK}


_BLANKED = {"quality": _of_quality, "upkeep": _of_upkeep, "runs": _of_runs}
