"""A pipeline whose file has another name goes on under that name, with all that it wrote.

What a pipeline writes is in one folder, whose tables and checkpoints know each other by ids and
never by a path. Its name stands in the rows of `ops` and in what their tables count by, in the
contracts, and in the notes beside the bronze of others that its tables join with. Elsewhere (plans
of finished acts, results, Data Docs, descriptions of tables) it is history, and stays.

The life of a rename, under the pipeline's lease, which goes along:
1. the pipeline is stopped (`runs/unfinished_act.py`);
2. beside other bronzes the new name is noted, so that these keep what its tables have yet to read;
3. its folder gets the new name, at once: from here on a repetition finds it there;
4. the tables of `ops`, each in one commit; contracts; the former name goes beside other bronzes;
5. runs go on.
Killed anywhere, neither name has a run before a repetition has done the rest.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from tidemark.commit_point import commit_point
from tidemark.errors import (
    LeaseHeld,
    NotPublishable,
    PipelineNotFound,
    RenameRefused,
    StorageUnavailable,
)
from tidemark.gold.other_readers import (
    OtherReader,
    forget_reader,
    if_no_more,
    note_reader,
    other_readers,
)
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline, pipeline_files
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import check_folder_name
from tidemark.pipeline.places import OPS_TABLES
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.runs.contract.contract import read_contract, write_contract
from tidemark.runs.contract.recorded import queries_of
from tidemark.runs.own_folder import why_not_to_clear
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.removal import noted_readings, read_below
from tidemark.runs.results.newest_result import held_run
from tidemark.runs.status.recorded_status import record_status
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    check_no_unfinished_act,
    release_after,
    stop_for,
    unfinished_act,
)
from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.ops import ops_rows, own_rows
from tidemark.storage.delta.ops_place import OpsPlace, transaction_names
from tidemark.storage.files import FileFacts, list_files, name_below, rename_folder
from tidemark.storage.lease.lease import Lease, living, read_lease
from tidemark.storage.processes import this_machine
from tidemark.storage.root import check_root
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import RENAME, SCHEMA, ensure_upkeep

_UNTOUCHED = "Nothing was changed."
_PIPELINE, _UPKEEP = "pipeline", "upkeep"
_CONTRACT, _STATE_BY_PATH = ".contract.json", "/_metadata/v2/"


@dataclass(frozen=True)
class Renaming:
    """What a rename does: `pipeline` is that of the file, under its new name. `act`: it was begun,
    and its folder has the new name if `is_moved`. `files` of the folder, with their `size` in
    bytes; `reads`: whose bronze its tables are noted to join with."""

    former: str
    pipeline: Pipeline
    act: PipelineAct | None
    is_moved: bool
    files: int
    size: int
    reads: tuple[tuple[str, OtherReader], ...]


def plan_rename(former: str, name: str, settings: Settings) -> Renaming:
    """What there is to do; only reads.

    RenameRefused where it cannot be done, or not exactly; RenameUnfinished where the pipeline was
    to get another name; LeaseHeld while something works on it. RootMissing, PipelineInvalid.
    """
    check_root(settings)
    pipeline = _renamed_file(former, name, settings)
    at, to = Warehouse.of(former, settings), Warehouse.of(name, settings)
    act = _begun(to, former, name)
    is_moved = act is not None
    if is_moved:
        at = to
    else:
        _check_place(former, at, to)
        act = _begun(at, former, name)
    files = list_files(at.places.folder, at.options)
    if not is_moved:
        for why in _reasons(pipeline, at, settings, files):
            raise RenameRefused(f"{why} {_UNTOUCHED}")
    for place in _contracts(at):
        read_contract(place, at.options)
    size = sum(facts.size for facts in files.values())
    reads = tuple(noted_readings(former, settings))
    return Renaming(former, pipeline, act, is_moved, len(files), size, reads)


def _renamed_file(former: str, name: str, settings: Settings) -> Pipeline:
    for one in (former, name):
        try:
            check_folder_name(one, "pipeline")
        except ValueError as error:
            raise RenameRefused(f"{one!r} {error}. {_UNTOUCHED}") from error
    there = {file.stem: file for file in pipeline_files(settings.pipelines_folder)}
    if former in there:
        raise RenameRefused(
            f"{there[former]} is there: {former} would begin anew under this name. {_UNTOUCHED} "
            f"Rename the file first (git mv), to {name}{there[former].suffix}."
        )
    try:
        return find_pipeline(name, settings)
    except PipelineNotFound as error:
        raise RenameRefused(
            f"{error} {_UNTOUCHED} Give {former}'s file this name first (git mv)."
        ) from error


def _begun(warehouse: Warehouse, former: str, name: str) -> PipelineAct | None:
    """This rename, where it was begun and its mark lies here; any other act is in the way."""
    act, pipeline = unfinished_act(warehouse), warehouse.places.pipeline
    if act is None or (act.kind is ActKind.RENAME and act.id.split(":")[:2] == [former, name]):
        return act
    if act.kind is ActKind.RENAME:
        check_no_unfinished_act(warehouse)
    raise RenameRefused(
        f"A {act.kind} of {pipeline} was begun and not finished. {_UNTOUCHED} Give the file the "
        f"name {pipeline} for that. {act.ways_out(pipeline)}"
    )


def _check_place(former: str, warehouse: Warehouse, to: Warehouse) -> None:
    folder = warehouse.places.folder
    if not is_local(folder):
        raise RenameRefused(
            f"{folder} is in an object store, where no folder gets another name at once: killed in "
            f"the middle, both would hold a part. {_UNTOUCHED} Keep the name, or begin anew."
        )
    if os.path.lexists(local_path(to.places.folder)):
        raise RenameRefused(
            f"{to.places.folder} is there already: something was written under this name. "
            f"{_UNTOUCHED} Where a run of it has begun anew since the file was renamed, move that "
            "folder away."
        )
    lease = read_lease(warehouse.places.lease, warehouse.options)
    if lease is None:
        raise RenameRefused(f"{folder} is no folder that a pipeline has written. {_UNTOUCHED}")
    if lease.released or lease.purpose == RENAME:
        return
    if living(lease, this_machine()) or lease.machine != this_machine():
        raise LeaseHeld(
            f"The run {lease.run_id} ({lease.purpose}) on {lease.host} holds the lease of "
            f"{former}. {_UNTOUCHED} Try again when it has ended."
        )
    raise RenameRefused(
        f"The run {lease.run_id} ({lease.purpose}) of {former} was killed, and no run has finished "
        f"since what it began. {_UNTOUCHED} {_as_it_was(former)}"
    )


def _as_it_was(former: str) -> str:
    return f"Give the file its former name, `tidemark run {former}`, and rename it then."


def _reasons(
    pipeline: Pipeline, warehouse: Warehouse, settings: Settings, files: Mapping[str, FileFacts]
) -> Iterator[str]:
    """Why it cannot be done, or would not be exact."""
    former, folder = warehouse.places.pipeline, warehouse.places.folder
    names = [name_below(folder, place) for place in files]
    if readers := other_readers(warehouse):
        yield (
            f"Tables of other pipelines join with the bronze of {former}, and know it by this name:"
            f" {', '.join(one.name for one in readers)}. Let these begin a generation without the "
            "join first (`tidemark migrate`), and one with it afterwards. "
            f"{if_no_more(warehouse, readers)}"
        )
    for read in read_below(folder, settings):
        yield " ".join(read)
    if because := why_not_to_clear(warehouse, names, "rename"):
        yield because
    if state := next((name for name in names if _STATE_BY_PATH in name), None):
        yield (
            f"The query of a fold keeps state that names its files by their whole path ({folder}/"
            f"{state}). Let its table be recomputed (`stream: recompute`, then `tidemark migrate`),"
            " and once maintenance has removed the former generation, rename it."
        )
    ways_out = {former: _as_it_was(former), pipeline.name: "Take another name."}
    for one, table in product(ways_out, OPS_TABLES):
        ops = Warehouse.of(one, settings).ops_table(table)
        if own_rows(ops.not_moved(), one, [_PIPELINE]):
            yield (
                f"{ops.shared} has rows of {one} from before pipelines had tables of their own. "
                f"{ways_out[one]}"
            )
    asked = pipeline.model_copy(update={"name": former})
    for query in queries_of(asked, settings):
        if query.checkpoint.restart_case().startswith("repeats"):
            yield f"A run of {former} left a batch of {query.name} unfinished. {_as_it_was(former)}"
    with suppress(NotPublishable):
        held = held_run(former, settings)[1]
        yield (
            f"The run {held.run_id} of {former} is held, and can be published under this name "
            f"alone. Give the file its former name, `tidemark publish {former}`, and rename it "
            "then."
        )


def rename(plan: Renaming, settings: Settings, now: datetime, by: str, reason: str | None) -> None:
    """Do it, or the rest of it. `now` is in UTC. Raises what `plan_rename` raises, LeaseHeld."""
    former, name = plan.former, plan.pipeline.name
    here = plan.pipeline if plan.is_moved else plan.pipeline.model_copy(update={"name": former})
    run_id = manual_run_id(now)
    with pipeline_lease(
        here, settings, run_id, RENAME,
        ends_processes=False, finishes=ActKind.RENAME, any_clock=True,
    ) as lease:  # fmt: skip
        # What was planned without the lease may be so no more.
        plan = plan_rename(former, name, settings)
        act = plan.act or PipelineAct(ActKind.RENAME, f"{former}:{name}:{run_id}")
        warehouse = Warehouse.of(name, settings).fenced(lease.check)
        notes = [(Warehouse.of(other, settings), reader) for other, reader in plan.reads]
        renamed = [(at, one.model_copy(update={_PIPELINE: name})) for at, one in notes]
        before = Warehouse.of(former, settings).fenced(lease.check)
        if not plan.is_moved:
            stop_for(before, act)
        for other, reader in renamed:
            note_reader(other, reader)
        if not plan.is_moved:
            _move(before, warehouse, lease, renamed)
        row = {"run": run_id, "time": now, "kind": RENAME, "verdict": f"was {former}"}
        ensure_upkeep(warehouse.upkeep)
        for table in OPS_TABLES:
            told = {**row, "by": by, "reason": reason} if table == _UPKEEP else None
            _rename_rows(warehouse.ops_table(table), act, told)
        for place in _contracts(warehouse):
            _rename_contract(place, name, warehouse)
        for other, reader in notes:
            forget_reader(other, reader)
        release_after(warehouse)
    record_status(name, settings, now)


@commit_point(
    "folder of a pipeline renamed",
    after_a_kill="before: the pipeline is stopped under its former name; after: under the new one; "
    "a repetition does the rest",
)
def _move(
    former: Warehouse, to: Warehouse, lease: Lease, noted: Iterable[tuple[Warehouse, OtherReader]]
) -> None:
    """At once, with the lease. Where it is refused, the pipeline goes on as it was, and what was
    `noted` beside other bronzes goes."""
    here, there = former.places.folder, to.places.folder
    try:
        lease.go_along(lambda: rename_folder(here, there), to.places.lease)
    except StorageUnavailable as error:
        for other, reader in noted:
            forget_reader(other, reader)
        release_after(former)
        raise RenameRefused(f"{error} {_UNTOUCHED}") from error


@commit_point(
    "rows of ops renamed",
    after_a_kill="before: the table has the former name, and no run starts; after: a repetition "
    "sees by its transaction that it has the new one",
)
def _rename_rows(place: OpsPlace, act: PipelineAct, row: Mapping[str, Any] | None) -> None:
    """All rows of a table in one commit, what it counts by, and one row more where it is given."""
    table = place.own.open()
    if table is None or table.transaction_version(act.id) is not None:
        return
    former, name, _ = act.id.split(":", 2)
    rows = conformed(dataset_of(table).to_table(), schema_of(table))
    if row is not None:
        rows = pa.concat_tables([rows, ops_rows(table, SCHEMA, [row])])
    at = rows.schema.get_field_index(_PIPELINE)
    named = pa.array([name] * rows.num_rows, rows.schema.field(at).type)
    counted = {
        f"{name}{one.removeprefix(former)}": table.transaction_version(one)
        for one in transaction_names(place.own, table.version())
        if one.startswith(f"{former}/")
    }
    noted = [Transaction(one, at) for one, at in counted.items() if at is not None]
    place.fence()
    write_deltalake(
        table,
        rows.set_column(at, rows.schema.field(at), named),
        mode="overwrite",
        commit_properties=CommitProperties(
            app_transactions=[Transaction(act.id, 0), *noted], max_commit_retries=0
        ),
    )


def _contracts(warehouse: Warehouse) -> list[str]:
    """Those of all queries and generations, also of tables that are out of the file."""
    files = warehouse.file_at(warehouse.places.checkpoints).files()
    return sorted(place for place in files if place.endswith(_CONTRACT))


def _rename_contract(place: str, name: str, warehouse: Warehouse) -> None:
    contract = read_contract(place, warehouse.options)
    if contract is not None and contract.pipeline.name != name:
        pipeline = contract.pipeline.model_copy(update={"name": name})
        warehouse.fence()
        write_contract(place, contract.model_copy(update={"pipeline": pipeline}), warehouse.options)
