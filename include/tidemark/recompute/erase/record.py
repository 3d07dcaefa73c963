"""What an erasure does, once Spark has found the rows: a commit for each table, of files that are
there; the account of it; and the proof, before what held the rows is removed.

Bronze and rejects have a commit also where none of their rows goes: behind it no batch is told by
notes any more, whose rows would be counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tidemark.commit_point import commit_point
from tidemark.errors import ErasureRefused, ErasureUnproven
from tidemark.ledger.erased import record_place
from tidemark.ledger.ledger import write_ledger
from tidemark.ledger.lines import erasure_line
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.recompute.act_row import record_upkeep_of
from tidemark.recompute.erase.change import BRONZE, ErasedRows, Erasure
from tidemark.recompute.plans import CHANGE, write_plan
from tidemark.recompute.retract.record import left_to_begin
from tidemark.recompute.still_planned import check_files_there, check_no_other_rows
from tidemark.runs.losses import find_losses
from tidemark.runs.unfinished_act import release_after
from tidemark.storage.delta.commits import commit_noting
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import Leaving, files_gone, rewrite_files
from tidemark.storage.files import stat_files, write_bytes
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import ERASE


@commit_point(
    "erasure planned",
    after_a_kill="before and after: the pipeline is as it was; a repetition makes another plan, "
    "and removes this one",
)
def keep_erasure(change: Erasure, warehouse: Warehouse) -> None:
    """Write the plan into the folder of its act."""
    write_plan(change.act.folder(warehouse), change)


def erased_place(warehouse: Warehouse, table: str) -> TablePlace:
    """Where a table lies that rows are erased of."""
    return warehouse.table_at(f"{warehouse.places.folder}/{table}")


def take_out(change: Erasure, warehouse: Warehouse) -> None:
    """All commits; one that was made already is not made again. ErasureUnproven where a table is
    not what it was when it was planned. ErasureRefused, and the pipeline goes on, where files of
    the plan are gone before the first commit."""
    places = [(one, erased_place(warehouse, one.table)) for one in change.erased]
    gone = [file for one, place in places for file in files_gone(place, one.staying)]
    if gone and not any(_is_out(change, one, place) for one, place in places):
        release_after(warehouse)
        raise ErasureRefused(
            f"{gone[0]}, which the erasure {change.id} of {change.pipeline} wrote, is gone, by "
            "VACUUM. No row was erased, and the pipeline goes on. Erase them anew."
        )
    for one, place in places:
        _take_out(change, one, place)


def _is_out(change: Erasure, one: ErasedRows, place: TablePlace) -> bool:
    return commit_noting(place.existing(), change.note(one), one.version) is not None


@commit_point(
    "erased rows taken out",
    after_a_kill="before: the table has them yet, no run starts, and a repetition takes them out; "
    "after: a repetition sees the note in its commit",
)
def _take_out(change: Erasure, one: ErasedRows, place: TablePlace) -> None:
    table = place.existing()
    if _is_out(change, one, place):
        return
    check_no_other_rows(place, one.version, f"the erasure {change.id}", ErasureUnproven)
    check_files_there(place, one.staying, ErasureUnproven)
    place.fence()
    what, now = "the rows that stay", datetime.now(UTC)
    leaving = Leaving(one.version, one.leaving, one.rows, one.dates)
    rewrite_files(table, place, leaving, one.staying, what, change.note(one), now)


def is_recorded(change: Erasure, warehouse: Warehouse) -> bool:
    """Is all done but to remove what held the rows?"""
    record = record_place(warehouse, change.id)
    return stat_files([record], warehouse.options)[record] is not None


def account_for(change: Erasure, warehouse: Warehouse, now: datetime) -> None:
    """The ledger's line and the row in `ops/upkeep`, once. `now` is in UTC."""
    scheduled = epoch_ms(change.planned_at)
    line = erasure_line(change.id, change.rows[BRONZE], _lost(change, warehouse))
    write_ledger(warehouse.ledger, change.pipeline, change.run_id, scheduled, [line], now)
    told = ", ".join(f"{rows} rows of {table}" for table, rows in change.rows.items())
    verdict = f"{told} erased" + (", rejected when they come again" if change.again else "")
    said = {"place": BRONZE, "verdict": verdict, "by": change.by, "reason": change.reason}
    record_upkeep_of(change, ERASE, warehouse.upkeep, said)


def _lost(change: Erasure, warehouse: Warehouse) -> int:
    """How many rows bronze has lost, counted."""
    (version,) = (one.version for one in change.erased if one.table == BRONZE)
    before = dataset_of(warehouse.bronze.at_version(version)).count_rows()
    return before - dataset_of(warehouse.bronze.existing()).count_rows()


@commit_point(
    "erasure recorded",
    after_a_kill="before: no run starts, and a repetition looks at all again; after: no run "
    "starts, and a repetition removes what held the rows",
)
def record_erasure(change: Erasure, warehouse: Warehouse) -> None:
    """Its record, which stays, and from which on nothing goes back."""
    warehouse.fence()
    written = change.record.model_dump_json(indent=1).encode()
    write_bytes(record_place(warehouse, change.id), written, warehouse.options)


@commit_point(
    "plan of an erasure removed",
    after_a_kill="before: no run starts, and a repetition looks for what is left; after: a "
    "repetition finds nothing to do but to let runs go on",
)
def forget_plan(change: Erasure, warehouse: Warehouse) -> None:
    """Its plan goes, last of all that it wrote."""
    folder = change.act.folder(warehouse)
    folder.remove_files([folder.below(CHANGE)])


def prove(change: Erasure, pipeline: Pipeline, warehouse: Warehouse) -> None:
    """ErasureUnproven where tables are not what was planned, or do not fit each other: the pipeline
    stays stopped, and nothing that could tell more has been removed yet."""
    if wrong := tuple(_wrong(change, pipeline, warehouse)):
        raise ErasureUnproven(
            f"What the erasure {change.id} left of {pipeline.name} is not what was planned: "
            f"{' '.join(wrong)} No run starts, and nothing else was removed. Mend what is said, "
            f"then `tidemark erase {pipeline.name} --apply` looks again."
        )


def _wrong(change: Erasure, pipeline: Pipeline, warehouse: Warehouse) -> Iterator[str]:
    for one in change.erased:
        place = erased_place(warehouse, one.table)
        if not _is_out(change, one, place):
            yield f"No commit of {place.uri} says that rows were erased."
    if (lost := _lost(change, warehouse)) != change.rows[BRONZE]:
        yield f"{warehouse.bronze.uri} lost {lost:,} rows, not {change.rows[BRONZE]:,}."
    for table in left_to_begin(change.tables, warehouse):
        yield f"{table} has begun no new generation."
    yield from map(str, find_losses(pipeline, warehouse))
