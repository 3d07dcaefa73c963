"""Accept what runs stop at: rows that were changed by hand, input that is gone. Why, and who,
stands in the log.

The life of an acceptance, under the pipeline's lease:
1. find what was changed by hand (`runs/losses.py`);
2. refuse what runs cannot go on with, and a file that cannot be compared;
3. input that is gone is noted as lost (`sources/notes.py`), and is a verdict of the batch that
   would have read it; its source may refuse that, so it comes before all else that is written;
4. one commit in each changed table, without rows, notes up to which version it is accepted;
5. a clock that does not fit the last batch's, or the store's, is noted there too
   (`runs/wall_clock.py`);
6. changes of the pipeline's file that wait for it are accepted too (`runs/contract/accept.py`).
Killed between two of these, what is not accepted yet is still found; repeat it.

While changes of the source are followed, 3 and 5 alone are done: without them the run that is to
finish that could not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import CommitProperties, Transaction

from tidemark.commit_point import commit_point
from tidemark.errors import AcceptanceRefused
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.plan import accepted_name
from tidemark.gold.state import gold_state
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.difference import Difference
from tidemark.pipeline.instants import epoch_ms, instant_text, utc_instant
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.accept import accept_file, changes_to_accept
from tidemark.runs.found import found_tables
from tidemark.runs.losses import Loss, find_losses
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.unfinished_act import ActKind, check_no_unfinished_act
from tidemark.runs.wall_clock import accept_clock, clock_faults
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import LossAcceptance, LostInput
from tidemark.storage.delta.by_hand import ACCEPTED, HandCommit
from tidemark.storage.delta.notes import AcceptedNote, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse


def changed_by_hand(pipeline: Pipeline, settings: Settings) -> tuple[Loss, ...]:
    """What can be accepted; nothing is written. Raises AcceptanceRefused."""
    warehouse = Warehouse.of(pipeline.name, settings)
    found = tuple(loss for loss in find_losses(pipeline, warehouse) if loss.by_hand)
    for loss in found:
        if loss.name == BRONZE:
            _check_judged(pipeline, warehouse, loss)
        elif loss.name.startswith(f"{BRONZE}/"):
            _check_read_once(pipeline, warehouse, loss)
    return found


def lost_input(pipeline: Pipeline, settings: Settings) -> tuple[LostInput, ...]:
    """The parts of the source that are gone and were not read; nothing is written. Raises what
    says that the source cannot be asked."""
    warehouse = Warehouse.of(pipeline.name, settings)
    return source_handle(pipeline, settings).lost(ingest_checkpoint(warehouse))


@dataclass(frozen=True)
class Accepted:
    """What was accepted: in tables, of the source, of the pipeline's file, of the clock."""

    by_hand: tuple[Loss, ...]
    lost: tuple[LostInput, ...]
    of_file: tuple[Difference, ...]
    clock: tuple[str, ...]


def accept_changes(
    pipeline: Pipeline, settings: Settings, run_id: str, reason: str, by: str
) -> Accepted:
    """Accept it, and the changes of the pipeline's file that runs wait for, behind the lease. Gold
    stays as it is: an audit says what differs from bronze now, and a backfill mends what is closed.

    Raises AcceptanceRefused, LeaseHeld, and what `check_no_unfinished_act` raises unless
    changes are being followed and input is lost, or a clock apart; nothing is written then.
    """
    following = ActKind.FOLLOWING
    with pipeline_lease(
        pipeline, settings, run_id, "acceptance", finishes=following, any_clock=True
    ) as lease:
        warehouse = Warehouse.of(pipeline.name, settings).fenced(lease.check)
        lost = lost_input(pipeline, settings)
        clocks, ingest = lease.clocks(), ingest_checkpoint(warehouse)
        needed = bool(lost or clock_faults(ingest, clocks))
        is_following = check_no_unfinished_act(warehouse, following if needed else None) is not None
        found = () if is_following else changed_by_hand(pipeline, settings)
        if not is_following:
            # Nothing is written where the file cannot be compared.
            changes_to_accept(pipeline, settings)
        now, accepted = clocks.own, LossAcceptance(reason, by, clocks.own)
        if lost:
            source_handle(pipeline, settings).accept_lost(ingest, lost, accepted)
        for loss in found:
            up_to, tables = loss.by_hand[-1].version, tuple(pipeline.tables)
            note = AcceptedNote(up_to=up_to, reason=reason, by=by, tables=tables)
            if loss.name.startswith(f"{BRONZE}/"):
                _accept_of_other(pipeline, warehouse, loss, note)
            else:
                _accept(warehouse.table_at(loss.place), note)
        clock = accept_clock(ingest, clocks, accepted)
        of_file: tuple[Difference, ...] = ()
        if not is_following:
            of_file = accept_file(pipeline, settings, warehouse, reason, by, now)
    return Accepted(found, lost, of_file, clock)


def _accept_of_other(
    pipeline: Pipeline, warehouse: Warehouse, loss: Loss, note: AcceptedNote
) -> None:
    """Noted in gold of each table that reads it: the other pipeline's tables are its own."""
    for found in found_tables(pipeline, warehouse):
        for other in found.others:
            if other.uri == loss.place and found.gold.table is not None:
                name = accepted_name(other.name, str(other.id))
                # No version of gold itself is accepted by that.
                of_gold = note.model_copy(update={"up_to": -1})
                _accept(found.gold.place, of_gold, {name: note.up_to})


@commit_point(
    "changes by hand accepted",
    after_a_kill="before: runs stop as before; after: they go on",
)
def _accept(
    place: TablePlace, note: AcceptedNote, transactions: Mapping[str, int] | None = None
) -> None:
    table = place.existing()
    place.fence()
    noted = [Transaction(name, version) for name, version in (transactions or {}).items()]
    table.alter.set_table_properties(
        {ACCEPTED: str(note.up_to)},
        raise_if_not_exists=False,
        commit_properties=CommitProperties(
            custom_metadata=as_metadata(note), app_transactions=noted
        ),
    )


def _check_judged(pipeline: Pipeline, warehouse: Warehouse, bronze: Loss) -> None:
    """The stream takes what a commit only adds for new rows. Rows for closed windows are late to
    it, and these windows are computed again; in open ones they would count a second time, or
    without that anybody judged them."""
    held = warehouse.bronze.existing()
    tables = tuple(found_tables(pipeline, warehouse))
    # Without its gold nobody tells what is closed of a table: all may be open.
    closed = [gold_state(one.gold.table).close_ms if one.gold.table else 0 for one in tables]
    first = min(
        one.operator.kept_from_ms(one.operator.rows_in(held).first_needed_ms(close_ms))
        for one, close_ms in zip(tables, closed, strict=True)
    )
    if (commit := _adding_since(bronze, pipeline.source.event_time.column, first)) is not None:
        raise AcceptanceRefused(
            f"{bronze.place} got rows by hand in {commit}, with event times from "
            f"{instant_text(first)} on, or such as its log does not tell: the stream would take "
            "them for new rows of windows that are open. Nothing was written. Put the table back "
            "from a backup; rows that shall come in go through the source. Or compute each table "
            "whose windows these are from what bronze holds by now: "
            f"`tidemark migrate {pipeline.name} --rebuild TABLE`."
        )


def _check_read_once(pipeline: Pipeline, warehouse: Warehouse, bronze: Loss) -> None:
    """The stream of a table that joins takes what a commit to the other bronze only adds for new
    rows too, though they are back by a RESTORE, say, and wait in its state. A rebuild begins a new
    query, with each row once."""
    for table in found_tables(pipeline, warehouse):
        operator, gold = table.operator, table.gold.table
        if gold is None or bronze.place not in [other.uri for other in table.others]:
            continue
        assert isinstance(operator, Joins)
        opens = operator.first_open_start(gold_state(gold).close_ms)
        first = epoch_ms(opens - operator.needed_before(bronze.name))
        if (commit := _adding_since(bronze, operator.other_event_time, first)) is not None:
            raise AcceptanceRefused(
                f"{bronze.place} got rows by hand in {commit}, with event times from "
                f"{instant_text(first)} on, or such as its log does not tell: the stream of "
                f"{table.name}, which joins with it, would take them for new rows of windows that "
                "are open, and count twice what it has read before. Nothing was written. Put the "
                f"table back from a backup, or compute {table.name} from what both bronzes hold by "
                f"now: `tidemark migrate {pipeline.name} --rebuild {table.name}`."
            )


def _adding_since(bronze: Loss, column: str, first_ms: int) -> HandCommit | None:
    """The first commit by hand that only adds rows, with event times from then on or with such as
    are not known."""
    for commit in bronze.by_hand:
        for added in () if commit.removed else commit.added:
            stats: dict[str, Any] = json.loads(added.get("stats") or "{}")
            newest = stats.get("maxValues", {}).get(column)
            if newest is None or not _is_before(newest, first_ms):
                return commit
    return None


def _is_before(told: str, first_ms: int) -> bool:
    """Of a time as a log tells it; of one behind the year 9999, or before 1, nobody can tell."""
    try:
        return epoch_ms(utc_instant(told)) < first_ms
    except ValueError:
        return False
