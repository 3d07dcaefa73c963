"""The plan for one Delta table: what it is made from is read here, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.pipeline.settings.storage_options import delta_options
from tidemark.storage.delta.commits import last_append
from tidemark.storage.delta.place import TablePlace
from tidemark.upkeep.maintenance.log_files import LogPlan, plan_log
from tidemark.upkeep.maintenance.plan import MaintenancePlan
from tidemark.upkeep.maintenance.readers import TableReader
from tidemark.upkeep.maintenance.small_files import DataFile, compaction_part, small_files
from tidemark.upkeep.maintenance.unused_files import unused_files


@dataclass(frozen=True)
class MaintainedTable:
    """A table to be maintained. `only`: the partition that is the pipeline's own, of a table that
    pipelines share; None where all of it is."""

    name: str
    place: TablePlace
    readers: tuple[TableReader, ...] = ()
    only: str | None = None


def plan_table(
    target: MaintainedTable, table: DeltaTable, keep: Maintenance, now: datetime
) -> MaintenancePlan:
    """What is to be done to a table; `now` is in UTC.

    Nothing is, while a reader waits for longer than half of the retention: what it has yet to
    read is removed a retention after it was packed. StorageUnavailable where its folder cannot be
    listed.
    """
    behind = _furthest_behind(target.readers, now - keep.retention / 2)
    if behind is not None:
        why = _refusal(behind, keep.retention)
        return MaintenancePlan(target.name, target.place.uri, refused=why, advice=behind.advice)
    files = tuple(_data_files(table))
    packed = small_files(file for file in files if target.only in (None, file.partition))
    uri = target.place.uri
    unused, unused_part = unused_files(table, uri, target.place.files(), keep.retention)
    log = _plan_log(target, table, keep.log_retention, now)
    return MaintenancePlan(
        target.name,
        uri,
        (compaction_part(files, packed), unused_part, log.part),
        compact={_partition_column(table): tuple(sorted(packed))} if packed else {},
        checkpoint=log.checkpoint,
        remove=(*unused, *log.going),
    )


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
    return plan.without_going(f"checkpoint {plan.base} cannot be read, so all before it is needed")


def _opens(place: TablePlace, version: int) -> bool:
    try:
        DeltaTable(
            place.uri, version=version, storage_options=delta_options(place.options)
        ).file_uris()
    except DeltaError:
        return False
    return True


def _partition_column(table: DeltaTable) -> str:
    return next(iter(table.metadata().partition_columns), "")


def _data_files(table: DeltaTable) -> Iterator[DataFile]:
    """Without those whose partition is null, which nothing of ours writes."""
    column = _partition_column(table)
    files: Sequence[Mapping[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    for file in files:
        partition = file[f"partition.{column}"] if column else ""
        if partition is not None:
            yield DataFile(str(partition), file["size_bytes"])
