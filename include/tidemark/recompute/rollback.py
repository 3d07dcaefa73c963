"""The way back: gold as it was before its generation, whose former one goes on.

The life of a rollback, under the pipeline's lease: one commit of gold that brings back columns,
rows and the transactions of the version before the migration. Killed before it, nothing has
changed; after it, the former generation is in use, and the next run of its query reads what came
since. Late rows among it are repaired by that run, as those of any run are; where it could not, for
their windows are frozen, there is no way back. Properties of gold that were set since are set again
by a second commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import chain

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import MigrationRefused
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.plan import CHANGES, CLOSE, GoldState
from tidemark.gold.retention import (
    date_of,
    frozen_before_ms,
    needed_from_ms,
    open_and_given_up_ms,
    table_frozen_before_ms,
)
from tidemark.gold.state import gold_state
from tidemark.operators.operator import BRONZE, Operator
from tidemark.operators.other_inputs import other_places, reading
from tidemark.operators.repaired import MIGRATION
from tidemark.operators.touched import BatchRead
from tidemark.pipeline.instants import epoch_ms, instant_of, instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.recompute.rewind.tables import plan_back
from tidemark.runs.contract.contract import read_contract
from tidemark.runs.found import started_operator
from tidemark.runs.generations import ABANDONED, ROLLBACK, abandoned
from tidemark.runs.recorded_runs import try_to_record_run
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.append import on_this_version
from tidemark.storage.delta.appended import commit_actions, lacking_from
from tidemark.storage.delta.by_hand import commits_by_hand
from tidemark.storage.delta.commits import reaches_back
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.notes import (
    PublishedNote,
    RetentionNote,
    RetractedNote,
    RewoundNote,
    WidenedNote,
    note_of,
)
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.generation import GENERATION, generation_of
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Rollback:
    """Gold as it is, and as it was at the version before its generation began; the operator of the
    former one, and sentences for the plan."""

    pipeline: str
    table: str
    gold: DeltaTable
    now: GoldState
    before: GoldState
    operator: Operator
    notes: tuple[str, ...] = ()

    @property
    def transactions(self) -> dict[str, int]:
        """What gold says of itself from then on: lowered, as nothing else lowers them."""
        before = self.before
        return {
            CHANGES: before.changes,
            **before.inputs,
            CLOSE: before.close_ms,
            GENERATION: before.generation,
            ABANDONED: max(abandoned(self.gold), self.now.generation),
        }

    def lines(self) -> Iterator[str]:
        """What it comes to, for people."""
        yield (
            f"{self.table}: from generation {self.now.generation} back to "
            f"{self.before.generation}, gold as it was at its version {self.before.version}"
        )
        yield (
            f"  closed up to {instant_text(self.before.close_ms)} instead of "
            f"{instant_text(self.now.close_ms)}; the next run reads bronze from version "
            f"{self.before.bronze + 1} on"
        )
        yield from (f"  {note}" for note in self.notes)


def plan_rollback(pipeline: Pipeline, warehouse: Warehouse, table: str) -> Rollback:
    """Nothing is written. Raises MigrationRefused where there is no way back, or not any more."""
    gold = warehouse.gold(table).existing()
    now = gold_state(gold)
    began = _began(warehouse, gold, table, now.generation)
    former = warehouse.gold(table).at_version(began - 1)
    operator = started_operator(pipeline, warehouse, table, generation_of(former))
    before = gold_state(former, operator.inputs)
    back = plan_back(warehouse.gold(table), before.version)
    in_the_way = chain(_missing(pipeline, warehouse, table, operator, before), back.refused)
    found = next(in_the_way, None)
    if found is not None:
        raise MigrationRefused(
            f"{table} of {pipeline.name} cannot go back to generation {before.generation}: "
            f"{found.removesuffix('.')}. Nothing was written; generation {now.generation} goes on."
        )
    return Rollback(pipeline.name, table, gold, now, before, operator, back.notes)


def _began(warehouse: Warehouse, gold: DeltaTable, table: str, generation: int) -> int:
    """The version of gold with which its generation began."""
    for commit in gold.history():
        note = note_of(commit)
        if isinstance(note, PublishedNote) and note.trigger == MIGRATION:
            version = int(commit["version"])
            if not reaches_back(gold, version - 1):
                break
            found = warehouse.gold(table).at_version(version).transaction_version(GENERATION)
            if found == generation:
                return version
    raise MigrationRefused(
        f"Gold of {table} is of generation {generation}, and its log knows of no migration to it, "
        "or not of what was before, which maintenance or an erasure has removed: there is nothing "
        "to go back to. Nothing was written."
    )


def _missing(
    pipeline: Pipeline, warehouse: Warehouse, table: str, operator: Operator, before: GoldState
) -> Iterator[str]:
    """What the former generation needs and is not there any more."""
    generation = before.generation
    place = warehouse.changes(table, generation)
    changes = place.open()
    if changes is None or changes.version() < before.changes:
        yield f"its history is gone or went back ({place.uri})"
    checkpoint = query_checkpoint(warehouse, table, generation)
    ends = _ends(checkpoint, warehouse, table, operator, before)
    if ends is None:
        yield f"its checkpoint is gone ({checkpoint.uri})"
    else:
        yield from _changed_since(warehouse.bronze, ends[BRONZE])
        yield from lacking_from(warehouse.bronze, min(ends[BRONZE], before.bronze + 1))
        frozen = frozen_before_ms(pipeline, ingest_checkpoint(warehouse))
        if frozen is not None:
            bronze = warehouse.bronze.existing()
            needed_ms = needed_from_ms(operator, frozen, before.close_ms, bronze)
            yield from _needed_and_dropped(warehouse.bronze, before.bronze, date_of(needed_ms))
        given_up = open_and_given_up_ms(warehouse, table, operator, before.close_ms)
        for name, place in other_places(operator, warehouse).items():
            if place.open() is None:
                yield f"there is no {place.uri} any more"
                continue
            if given_up is not None:
                yield f"rows of {place.uri} that its open windows need may be gone (`keep`)"
            read = ends.get(name, 0)
            yield from _changed_since(place, read)
            yield from lacking_from(place, min(read, before.inputs[name] + 1))
            first_start = min(operator.first_open_start(before.close_ms), instant_of(frozen or 0))
            needed = (first_start - operator.needed_before(name)).date()
            yield from _needed_and_dropped(place, before.inputs[name], needed)
        if _changed_and_frozen(pipeline, warehouse, table, operator, before):
            yield (
                "windows that are frozen by now (`keep`) were changed since, or got rows, and it "
                "could not compute them again"
            )


def _ends(
    checkpoint: Checkpoint,
    warehouse: Warehouse,
    table: str,
    operator: Operator,
    before: GoldState,
) -> Mapping[str, int] | None:
    """The version that the former generation's query reads next, of each input: behind what the
    generation was computed from where it has not run yet. None where its checkpoint is gone."""
    if checkpoint.query_id() is None:
        return None
    last = checkpoint.last_batch("commits")
    if last is not None:
        read = checkpoint.delta_versions(last)
        others = {name: place.open() for name, place in other_places(operator, warehouse).items()}
        ids = {name: str(one.metadata().id) for name, one in others.items() if one is not None}
        ends = {name: read.get(one, 0) for name, one in ids.items()}
        return {BRONZE: checkpoint.delta_version(last), **ends}
    contract = warehouse.places.contract(table, before.generation)
    recorded = read_contract(contract, warehouse.options)
    seed = None if recorded is None else recorded.seed
    # Gold was published since: the batches that its query had are gone.
    if seed is None or seed.bronze < before.bronze:
        return None
    return {BRONZE: seed.bronze + 1, **{name: one + 1 for name, one in seed.others.items()}}


def _changed_and_frozen(
    pipeline: Pipeline, warehouse: Warehouse, table: str, operator: Operator, before: GoldState
) -> bool:
    """Would the way back undo what was changed of windows that are frozen by now? The next run of
    the former generation meets the rows that came since, and leaves such windows as they are."""
    bronze = warehouse.bronze.existing()
    close_ms = before.close_ms
    frozen_ms = table_frozen_before_ms(pipeline, warehouse, table, operator, bronze, close_ms)
    if frozen_ms is None:
        return False
    # The migration's own commit is of all windows: the rows tell what it has changed.
    gold = warehouse.gold(table).existing()
    changed = _changed_from_ms(operator, gold, before.version + 1)
    if any(_first_start_ms(operator, start_ms) < frozen_ms for start_ms in changed):
        return True
    others = {
        name: (before.inputs[name] + 1, place.existing().version())
        for name, place in other_places(operator, warehouse).items()
    }
    came = BatchRead(None, before.bronze + 1, bronze.version(), close_ms, others=others)
    rows = reading(_without_lookups(operator), warehouse).rows_in(bronze)
    (counts,) = rows.touched(warehouse.bronze, [came], frozen_ms, close_ms).batches
    return counts.frozen > 0


def _changed_from_ms(operator: Operator, gold: DeltaTable, after: int) -> Iterator[int]:
    """The earliest start of a window that each publish behind a version of gold changed otherwise
    than by rows: those tell it better, for a window since may begin before the former one that has
    its rows."""
    for commit in newest_first(gold):
        if commit["version"] <= after:
            return
        note = note_of(commit)
        if not isinstance(note, PublishedNote) or note.start_ms is None:
            continue
        if note.trigger is not None or operator.lookups:
            yield note.start_ms


def _first_start_ms(operator: Operator, start_ms: int) -> int:
    """The start of the first row of the former generation that a change from a time on can be of.
    One by other lookups may be of longer windows than those that say it; one by rows is told by
    the rows too."""
    return epoch_ms(operator.first_open_start(start_ms)) if operator.lookups else start_ms


def _without_lookups(operator: Operator) -> Operator:
    """Where rows fall is told by their times; the copies may be those of other lookups by now."""
    if not operator.lookups:
        return operator
    every = operator.table.model_copy(update={"group_by": (), "where": None})
    return replace(operator, table=every, lookups={})


def _needed_and_dropped(place: TablePlace, read: int, needed: date) -> Iterator[str]:
    """Has retention dropped dates of a bronze, after this version, that are still needed?"""
    if any(day >= needed for day in _dropped(place, read + 1)):
        yield f"dates of {place.uri} from {needed} on were dropped since (`keep`)"


def _changed_since(place: TablePlace, read: int) -> Iterator[str]:
    """Did a rewind take a bronze back that the query has read up to a version, were rows of it
    retracted, or changed by hand, or did its columns become wider? The query passes over such a
    commit: its state holds rows that bronze has no more, or values of the former types."""
    bronze = place.existing()
    newer = bronze.version() - read + 1
    notes = [note_of(commit) for commit in (bronze.history(newer) if newer > 0 else [])]
    if any(isinstance(note, RewoundNote) for note in notes):
        yield f"{place.uri} was taken back by a rewind since its query has read it"
    if any(isinstance(note, RetractedNote) for note in notes):
        yield f"rows of {place.uri} were retracted, or brought back, since its query has read it"
    if any(isinstance(note, WidenedNote) for note in notes):
        yield f"columns of {place.uri} got wider types since its query has read it"
    if any(one.removed for one in commits_by_hand(bronze, place, read - 1, accepted=False)):
        yield f"rows of {place.uri} were changed by hand since its query has read it"


def _dropped(place: TablePlace, first: int) -> Iterator[date]:
    """The dates that retention has dropped of a bronze since a version."""
    for version in range(first, place.existing().version() + 1):
        for action in commit_actions(place, version):
            note = note_of(action["commitInfo"]) if "commitInfo" in action else None
            if isinstance(note, RetentionNote):
                yield from note.dates


@commit_point(
    "gold of the former generation",
    after_a_kill="before: the generation goes on; after: the former one does; in between: it does, "
    "and gold may lack properties that were set since",
)
def roll_back(plan: Rollback, warehouse: Warehouse, run_id: str, started: datetime) -> int:
    """One commit, and another one where properties were set since; gold's version with them.
    StorageUnavailable where another commit came first, or files of the former gold are gone."""
    note = PublishedNote(run=run_id, started_at=started, trigger=ROLLBACK)
    noted = on_this_version(note, plan.transactions)
    properties_now = plan.gold.metadata().configuration
    warehouse.gold(plan.table).fence()
    try:
        plan.gold.restore(plan.before.version, commit_properties=noted)
    except CommitFailedError as error:
        raise not_committed(
            plan.gold.table_uri,
            error,
            f"{plan.gold.table_uri} got another commit meanwhile ({error}). Nothing went back. Try "
            "again.",
        ) from error
    except DeltaError as error:
        raise MigrationRefused(
            f"{plan.gold.table_uri} cannot be brought back to version {plan.before.version}: "
            f"{error}. Nothing was written; generation {plan.now.generation} goes on."
        ) from error
    plan.gold.update_incremental()
    # A restore brings back what gold said then, of the owner of the lease too.
    before = plan.gold.metadata().configuration
    lacking = {name: one for name, one in properties_now.items() if before.get(name) != one}
    if lacking:
        warehouse.gold(plan.table).fence()
        plan.gold.alter.set_table_properties(lacking, raise_if_not_exists=False)
    return plan.gold.version()


def record_rollback(
    plan: Rollback,
    warehouse: Warehouse,
    run_id: str,
    started: datetime,
    ended: datetime,
    by: str,
    reason: str | None = None,
) -> None:
    """Its row in `ops/runs`; where it cannot be written, the next run records it."""
    result = RunResult(
        pipeline=plan.pipeline,
        run_id=run_id,
        outcome="succeeded",
        held=False,
        trigger=ROLLBACK,
        scheduled_at=started,
        started_at=started,
        ended_at=ended,
        by=by,
        reason=reason,
    )
    try_to_record_run(warehouse.runs, result)
