"""What held erased rows goes: all that Tidemark made below a pipeline's folder and that is not
named here. An erasure is refused where there is something else, or a link.

What stays is: the files of the tables' newest versions, with the log's entry and checkpoint of that
version, and the entries back to the last change where takeovers of the lease came behind it, of
copies of lookups too, which are of others; the checkpoints in use, and contracts; the rows of
`ops`, without what they tell of values; the lease, the records of erasures, and this act's own
result. So what a former version left, or a table that is no longer in the file, goes too.

Removing is no commit. Killed anywhere, a repetition removes what is left: tables are read by what
stays of them all the time, the entries of a log going the oldest first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import ErasureRefused, ErasureUnproven
from tidemark.gold.views import is_of_gold
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import OPS_TABLES
from tidemark.recompute.erase.change import Erasure
from tidemark.runs.own_folder import why_not_to_clear
from tidemark.runs.unfinished_act import unfinished_mark
from tidemark.storage.delta.damage import LOG
from tidemark.storage.delta.fence import FENCING
from tidemark.storage.delta.notes import note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.files import STAGED, FileFacts, name_below
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.carry_out import blank_values, remove, write_checkpoint
from tidemark.upkeep.maintenance.plan_table import WRITE_OUT, why_files_are_untold

_ENTRY = re.compile(r"(\d{20})\.")
# Contracts of all generations, for no number is used twice; records of erasures.
_STAYING = re.compile(r"checkpoints/(ingest|[^/]+/\d+)\.contract\.json|erasures/[^/]+\.json")
# Where a value of `ops` was.
_BLANK = "erased"
# A file that no log names may be about to be committed for so long.
_ABOUT_TO_BE_COMMITTED = timedelta(hours=1)


@dataclass(frozen=True)
class _NamedByLog:
    """What stays of a table's folder, by its log at a version, whose data are in `files`, and whose
    entries from the version `first` on are still to be read. `own`:
    only the lease's owner writes to it, so that what its log does not name is nobody's; of another
    one a file as young as `since` may be about to be committed, if it is not among those that the
    log tells as `gone`."""

    table: DeltaTable
    first: int
    own: bool
    files: frozenset[str]
    gone: frozenset[str]
    since: datetime

    @classmethod
    def of(cls, table: DeltaTable, own: bool, since: datetime) -> _NamedByLog:
        if untold := why_files_are_untold(table):
            raise ErasureRefused(f"{table.table_uri} {untold}. Nothing was removed. {WRITE_OUT}")
        added: list[Any] = pa.table(table.get_add_actions()).column("path").to_pylist()
        files = frozenset(map(unquote, added))
        gone = table.vacuum(0, dry_run=True, enforce_retention_duration=False)
        return cls(table, _last_change(table), own, files, frozenset(gone), since)

    @property
    def checkpoint(self) -> str:
        return f"{self.table.version():020}.checkpoint.parquet"

    def is_young(self, name: str, facts: FileFacts) -> bool:
        """May another writer be about to commit it?"""
        if self.own or name in self.files or name in self.gone:
            return False
        if name.startswith(f"{LOG}/") and not STAGED.search(name):
            return False
        return facts.modified >= self.since

    def stays(self, name: str, facts: FileFacts) -> bool:
        """By its name below the table's folder."""
        folder, _, entry = name.rpartition("/")
        if folder != LOG or STAGED.search(name):
            return name in self.files or self.is_young(name, facts)
        version = self.table.version()
        found = _ENTRY.match(entry)
        is_newer = found is not None and not self.own and int(found[1]) > version
        entries = [f"{number:020}.json" for number in range(self.first, version + 1)]
        return is_newer or entry in ("_last_checkpoint", *entries, self.checkpoint)


def _last_change(table: DeltaTable) -> int:
    """The version of the newest commit that is no fence. What comes behind it are takeovers of the
    lease by who went on with the erasure: no gold stands for them yet, and a run reads them."""
    version = table.version()
    for commit in newest_first(table):
        version = int(commit["version"])
        if commit.get("operation") != FENCING or note_of(commit) is not None:
            break
    return version


@dataclass(frozen=True)
class _Kept:
    """What stays, by names below the pipeline's folder: these files, all in these folders, and of
    tables what their logs name."""

    files: frozenset[str]
    folders: tuple[str, ...]
    tables: Mapping[str, _NamedByLog]

    def keeps(self, name: str, facts: FileFacts) -> bool:
        if name in self.files or name.startswith(self.folders) or _STAYING.fullmatch(name):
            return True
        of = self._table(name)
        return of is not None and self.tables[of].stays(name.removeprefix(f"{of}/"), facts)

    def is_young(self, name: str, facts: FileFacts) -> bool:
        """May it be about to be committed to a table that others write to as well?"""
        of = self._table(name)
        return of is not None and self.tables[of].is_young(name.removeprefix(f"{of}/"), facts)

    def _table(self, name: str) -> str | None:
        return next((one for one in self.tables if name.startswith(f"{one}/")), None)


def check_folder(warehouse: Warehouse) -> None:
    """ErasureRefused where something lies below the pipeline's folder that Tidemark did not make,
    which would be lost, or a link, through which files of others would be."""
    if because := why_not_to_clear(warehouse, _files(warehouse)):
        raise ErasureRefused(f"{because} Nothing was changed.")


def purge(
    change: Erasure,
    pipeline: Pipeline,
    warehouse: Warehouse,
    own: Collection[str],
    now: datetime,
) -> tuple[str, ...]:
    """Remove it; safe to repeat. `own` are the places of this act's result and its log, `now` is in
    UTC. Returns files of `ops` that stay though no log names them: they are younger than an hour,
    and another process may be about to commit them. ErasureUnproven where something is left, or in
    the way: nothing is removed then."""
    if because := why_not_to_clear(warehouse, _files(warehouse)):
        raise ErasureUnproven(
            f"{because} No run starts, and nothing was removed by this try. Then `tidemark erase "
            f"{pipeline.name} --apply` goes on."
        )
    for name, blanked in _BLANKED.items():
        place = warehouse.ops_table(name).own
        if (table := place.open()) is not None:
            place.fence()
            blank_values(table, pipeline.name, blanked)
    since = now - _ABOUT_TO_BE_COMMITTED
    kept = _kept(pipeline, warehouse, own, change.id, since)
    for name, one in kept.tables.items():
        place = warehouse.table_at(f"{warehouse.places.folder}/{name}")
        if one.checkpoint not in place.folder(LOG).names():
            place.fence()
            write_checkpoint(one.table)
    going = _going(kept, _files(warehouse))
    remove(warehouse.file_at(warehouse.places.folder), tuple(going.values()))
    kept, found = _kept(pipeline, warehouse, own, change.id, since), _files(warehouse)
    if left := _going(kept, found):
        raise ErasureUnproven(
            f"{len(left):,} files of {warehouse.places.folder} that were to go are there, "
            f"{next(iter(left))} among them. No run starts. Does something write there? `tidemark "
            f"erase {pipeline.name} --apply` removes them."
        )
    return tuple(sorted(name for name, one in found.items() if kept.is_young(name, one.facts)))


def planned_purge(pipeline: Pipeline, warehouse: Warehouse, now: datetime) -> dict[str, int]:
    """How many files go of what is there now, by the folder that they are in: a dry run's. What is
    in use by now goes too, once the tables have begun their new generations."""
    since = now - _ABOUT_TO_BE_COMMITTED
    going = _going(_kept(pipeline, warehouse, (), None, since), _files(warehouse))
    return dict(sorted(Counter(name.partition("/")[0] for name in going).items()))


def _kept(
    pipeline: Pipeline,
    warehouse: Warehouse,
    own: Collection[str],
    act: str | None,
    since: datetime,
) -> _Kept:
    places = warehouse.places
    checkpoint = places.ingest_checkpoint
    folders = [places.other_readers, places.lease, checkpoint]
    folders += [f"{places.erasures}/{act}"] if act else []
    files = [*own, places.planned_columns, unfinished_mark(warehouse), places.source_notes]
    tables = [warehouse.bronze, warehouse.rejects, warehouse.retracted, warehouse.replayed]
    tables += map(warehouse.lookup, pipeline.lookup)
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
        below(place.uri): _NamedByLog.of(table, place not in ops, since)
        for place in (*tables, *ops)
        if (table := place.open()) is not None
    }
    return _Kept(
        frozenset(map(below, files)), tuple(f"{below(one).rstrip('/')}/" for one in folders), named
    )


class _File(NamedTuple):
    place: str
    facts: FileFacts


def _files(warehouse: Warehouse) -> dict[str, _File]:
    """All files of the pipeline's folder, by their names below it, in their order; what a killed
    writer has not given its name yet is one too."""
    folder = warehouse.places.folder
    place = warehouse.file_at(folder)
    found = place.real_files() | place.staged()
    return dict(
        sorted((name_below(folder, place), _File(place, facts)) for place, facts in found.items())
    )


def _going(kept: _Kept, found: Mapping[str, _File]) -> dict[str, str]:
    """The places of what goes, by its names."""
    return {name: one.place for name, one in found.items() if not kept.keeps(name, one.facts)}


def _of_quality(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "observed": _BLANK, "examples": "[]", "data_docs": None}


def _of_upkeep(row: dict[str, Any]) -> dict[str, Any]:
    """A verdict on a retraction has its condition, one on a replay the name of a file."""
    if (told := row.get("replay")) is not None:
        return {**row, "verdict": f"{told['rows']} rejects"}
    if (told := row.get("retraction")) is None:
        return row
    rows = f"{told['rows']} rows"
    return {**row, "verdict": rows, "retraction": {**told, "condition": _BLANK}}


def _of_runs(row: dict[str, Any]) -> dict[str, Any]:
    return row if row.get("error") is None else {**row, "error": _BLANK}


_BLANKED = {"quality": _of_quality, "upkeep": _of_upkeep, "runs": _of_runs}
