"""The plan for one Delta table: what it is made from is read here, and nothing is changed.

Which entries of its log go is the protocol's own rule (PROTOCOL.md, Metadata Cleanup): from a
checkpoint on, the entries before it are not needed to build a version. `cleanup_metadata` of
delta-rs knows an age only; here the checkpoint must also not be newer than what a reader still has
to read entry by entry.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import earlier
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.pipeline.settings.storage_options import delta_options
from tidemark.storage.delta.commits import last_append
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import FileFacts, name_below
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part, Work
from tidemark.upkeep.maintenance.readers import TableReader

# Also a checksum that Hadoop writes beside a file on a disk.
_ENTRY = re.compile(r"^\.?(\d{20})\.")
_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.parquet$")
# As often as Delta on Spark writes one, by default.
_MOST_AFTER_A_CHECKPOINT = 10
_LOG = "_delta_log/"
_HOUR = timedelta(hours=1)
_TARGET = 100 * 1024 * 1024
# A partition of fewer reads as well, and packing it anew each day would write its rows each day.
_FEWEST = 4
# For a table whose log does not tell all of its files.
WRITE_OUT = "Have Spark write them out (REORG TABLE … APPLY (PURGE)), and drop the feature."


@dataclass(frozen=True)
class LogPlan:
    """The places that may go, the oldest version first, so that what is left has no hole: those
    below `base`, the version of a checkpoint; and whether one of the newest version is due."""

    base: int | None
    going: tuple[str, ...]
    checkpoint: bool
    part: Part


def plan_log(
    files: Mapping[str, FileFacts], needed_from: int, keep: timedelta, now: datetime
) -> LogPlan:
    """What may go of a log, by the listing of its folder.

    Versions from `needed_from` on stay, and those of which a file was written in the last `keep`.
    """
    entries = {place: (place.rpartition("/")[2], facts) for place, facts in files.items()}
    commits = _versions(_COMMIT, entries)
    checkpoints = _versions(_CHECKPOINT, entries)
    before = earlier(now, keep)
    young = [v for v, modified in commits.items() if modified >= before]
    kept_from = min([needed_from, *young])
    base = max((version for version in checkpoints if version <= kept_from), default=None)
    numbered = sorted(
        (int(found[1]), place)
        for place, (name, _) in entries.items()
        if (found := _ENTRY.match(name))
    )
    going = tuple(place for version, place in numbered if base is not None and version < base)
    newest = max(checkpoints, default=-1)
    due = sum(version > newest for version in commits) >= _MOST_AFTER_A_CHECKPOINT
    reason = _reason(base, kept_from, needed_from, keep)
    part = Part.of_files(Work.LOG, {place: files[place] for _, place in numbered}, going, reason)
    return LogPlan(base, going, due, part)


def _reason(base: int | None, kept_from: int, needed_from: int, keep: timedelta) -> str:
    why = "a reader or a repeated batch needs it"
    if kept_from < needed_from:
        why = f"it is of the last {duration_text(keep)}"
    if base is None:
        return f"no checkpoint up to version {kept_from}, which stays: {why}"
    return f"entries below checkpoint {base} may go; version {kept_from} stays: {why}"


def _versions(
    pattern: re.Pattern[str], entries: Mapping[str, tuple[str, FileFacts]]
) -> dict[int, datetime]:
    return {
        int(found[1]): facts.modified
        for name, facts in entries.values()
        if (found := pattern.match(name))
    }


@dataclass(frozen=True)
class MaintainedTable:
    """A table to be maintained, and who reads it commit by commit."""

    name: str
    place: TablePlace
    readers: tuple[TableReader, ...] = ()


def plan_table(
    target: MaintainedTable, table: DeltaTable, keep: Maintenance, now: datetime
) -> MaintenancePlan:
    """What is to be done to a table; `now` is in UTC.

    Nothing is, while a reader waits for longer than half of the retention: what it has yet to
    read is removed a retention after it was packed; nor where the log does not tell all of the
    table's files: VACUUM would take some that are in use for unused ones. StorageUnavailable where
    its folder cannot be listed.
    """
    behind = _furthest_behind(target.readers, now - keep.retention / 2)
    if behind is not None:
        why = _refusal(behind, keep.retention)
        return MaintenancePlan(target.name, target.place.uri, refused=why, advice=behind.advice)
    if untold := why_files_are_untold(table):
        return MaintenancePlan(
            target.name, target.place.uri, refused=f"it {untold}", advice=WRITE_OUT
        )
    packed, packed_part = _compaction(table)
    uri = target.place.uri
    staged = {
        place: facts
        for place, facts in target.place.staged().items()
        if facts.modified < now - keep.retention
    }
    files = target.place.real_files()
    unused, unused_part = unused_files(table, uri, files, staged, keep.retention)
    log = _plan_log(target, table, keep.log_retention, now)
    return MaintenancePlan(
        target.name,
        uri,
        (packed_part, unused_part, log.part),
        compact=packed,
        checkpoint=log.checkpoint,
        remove=(*unused, *log.going),
    )


def why_files_are_untold(table: DeltaTable) -> str | None:
    """Why a table's log does not tell all of its files; None where it does."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return None
    return "has deletion vectors, whose files no log lists by their names"


def _furthest_behind(readers: Sequence[TableReader], since: datetime) -> TableReader | None:
    """One that somebody has to bring on is told first."""
    behind = [one for one in readers if one.waiting is not None and one.waiting < since]
    return min(behind, key=lambda one: (one.advice is None, one.waiting), default=None)


def _refusal(behind: TableReader, keep: timedelta) -> str:
    return (
        f"{behind.who} has yet to read from version {behind.first} on; the oldest rows there are "
        f"of {behind.waiting:%Y-%m-%d %H:%M:%S} UTC, longer ago than half of the retention of "
        f"{duration_text(keep)}"
    )


def _plan_log(
    target: MaintainedTable, table: DeltaTable, keep: timedelta, now: datetime
) -> LogPlan:
    place = target.place
    # The note of the last append tells a batch that is repeated what it has committed.
    last = last_append(table, table.version())
    needed = [table.version() if last is None else last, *(one.first for one in target.readers)]
    plan = plan_log(place.files("_delta_log"), min(needed), keep, now)
    # Once the entries below a checkpoint are gone, nothing else builds the versions after it.
    if plan.base is None or not plan.going or _opens(place, plan.base):
        return plan
    why = f"checkpoint {plan.base} cannot be read, so all before it is needed"
    return replace(plan, going=(), part=replace(plan.part, going=0, going_size=0, reason=why))


def _opens(place: TablePlace, version: int) -> bool:
    options = delta_options(place.options)
    try:
        DeltaTable(place.uri, version=version, storage_options=options).file_uris()
    except DeltaError:
        return False
    return True


def unused_files(
    table: DeltaTable,
    uri: str,
    files: Mapping[str, FileFacts],
    staged: Mapping[str, FileFacts],
    keep: timedelta,
) -> tuple[tuple[str, ...], Part]:
    """The places of data files that no version within the retention has, and the numbers. `files`
    is the listing of the table's folder, `staged` what writers that died that long ago have not
    given its name yet, which no listing of delta-rs tells.

    Which they are says delta-rs, by VACUUM's rules (full): files that the log removed longer ago
    than the retention, and files that it never knew, as writers leave them that died before their
    commit, once they are that old themselves. Only its dry run is used: it also gives their names,
    and what is removed by name is what was shown; and the act of the library would add two commits
    to the table.
    """
    names = table.vacuum(
        -(-keep // _HOUR), dry_run=True, enforce_retention_duration=False, full=True
    )
    places = {name_below(uri, place): place for place in files}
    going = (*(places[name] for name in sorted(names) if name in places), *staged)
    data = {place: files[place] for name, place in places.items() if not name.startswith(_LOG)}
    data |= staged
    reason = f"files that are no part of the table since {duration_text(keep)}"
    return going, Part.of_files(Work.UNUSED_FILES, data, going, reason)


def _compaction(table: DeltaTable) -> tuple[Mapping[str, tuple[str, ...]], Part]:
    """The partitions that have enough small files, as a plan names them, and the numbers: delta-rs
    packs those files into some of up to 100 MB (`delta.targetFileSize`, its default); which ones it
    then takes is its own."""
    column = next(iter(table.metadata().partition_columns), "")
    key = f"partition.{column}" if column else "path"
    # Bounds may be days and times that Python does not have.
    files = pa.table(table.get_add_actions(flatten=True)).select(["size_bytes", key]).to_pylist()
    sizes: dict[str, list[int]] = defaultdict(list)
    for file in files:
        partition = file[key] if column else ""
        # One that is null is of nothing that we write.
        if partition is not None:
            sizes[str(partition)].append(file["size_bytes"])
    small = {key: [size for size in of if size < _TARGET] for key, of in sizes.items()}
    packed = {key: of for key, of in small.items() if len(of) >= _FEWEST}
    every, going = ([*chain.from_iterable(of.values())] for of in (sizes, packed))
    reason = f"partitions with at least {_FEWEST} files below 100 MB: {len(packed)}"
    part = Part(Work.COMPACTION, len(every), sum(every), len(going), sum(going), reason)
    return {column: tuple(sorted(packed))} if packed else {}, part
