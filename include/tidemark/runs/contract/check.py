"""Is a pipeline's file still one that its queries can go on with? Asked before each run.

The life of a change:
1. nothing has run yet, or nothing differs: the run goes on;
2. a difference that is refused, or that nobody has accepted yet (`accept.py`): the run ends
   before it writes anything (PipelineChanged);
3. a query left a batch of which tables hold something already, and its contract differs: this whole
   run is one of the content that was recorded, so that the batch ends as it was begun; the next run
   takes the change;
4. else the new contract is recorded, before the first batch that runs by it: also before one that
   was left with nothing committed, over the same bronzes. A content that made it fail would make it
   fail again.
Killed anywhere, the next run decides anew, from the same files: while a batch is left, nothing is
recorded. Where only some contracts were written, no query ran by them yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from tidemark.commit_point import commit_point
from tidemark.errors import PipelineChanged, TidemarkError
from tidemark.gold.retention import expired_dates, rows_of_dates
from tidemark.operators.kinds import operator_of
from tidemark.operators.other_inputs import other_pipelines
from tidemark.pipeline.column_types import same_type
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import same_column
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.aggregate_changes import aggregate_changes
from tidemark.runs.contract.contract import AcceptedChange, Contract, write_contract
from tidemark.runs.contract.ingest_changes import KEEP, ingest_changes
from tidemark.runs.contract.recorded import RecordedQuery, column_types, queries_of
from tidemark.runs.contract.zone_changes import zone_changes
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import FilePlace
from tidemark.storage.warehouse import Warehouse
from tidemark.version import told_version

_MOST_SHOWN = 10


@dataclass(frozen=True)
class Comparison:
    """A pipeline's file beside what its queries were started with.

    `unfinished` are the queries whose tables hold part of a batch that was not committed, and which
    differ from what the file asks for.
    """

    queries: tuple[RecordedQuery, ...]
    differences: tuple[Difference, ...]
    unfinished: tuple[RecordedQuery, ...]

    @property
    def refused(self) -> tuple[Difference, ...]:
        return tuple(found for found in self.differences if found.refused)


@dataclass(frozen=True)
class Admitted:
    """A run that may begin: by which content, which contracts it records, what to say of it."""

    pipeline: Pipeline
    to_record: tuple[RecordedQuery, ...] = ()
    messages: tuple[str, ...] = ()


def compare_contracts(pipeline: Pipeline, settings: Settings) -> Comparison:
    """Compare without writing anything; of an unchanged pipeline one small file a query is read."""
    warehouse = Warehouse.of(pipeline.name, settings)
    queries: list[RecordedQuery] = []
    found: list[Difference] = []
    unfinished: list[RecordedQuery] = []
    for query in queries_of(pipeline, settings):
        changes = (
            ()
            if query.recorded is None
            else differences_here(query.recorded, query.asked, warehouse)
        )
        if changes and not (query.planned or query.migrated):
            queries.append(replace(query, recorded=None))
            continue
        queries.append(query)
        if changes and never_committed(query, warehouse) and _reads_what_it_did(query):
            changes = tuple(_of_nothing(one) for one in changes)
        if query.name == INGEST and changes:
            changes = tuple(_in_bronze(changes, warehouse, query.asked.pipeline))
        found.extend(changes)
        if changes and left_begun(query, warehouse):
            unfinished.append(query)
    return Comparison(tuple(queries), tuple(found), tuple(unfinished))


def contract_differences(recorded: Contract, asked: Contract) -> tuple[Difference, ...]:
    """What differs for a query, and which of it somebody accepted; none where it is the same to
    it. Pure."""
    compare = ingest_changes if asked.query == INGEST else aggregate_changes
    return tuple(_with_acceptance(recorded, found) for found in compare(recorded, asked))


def differences_here(
    recorded: Contract, asked: Contract, warehouse: Warehouse
) -> tuple[Difference, ...]:
    """All that differs, by this machine and the warehouse too: whether a zone has other rules, and
    bronze values of a column that is new in the file."""
    differences = contract_differences(recorded, asked)
    if asked.query == INGEST:
        here = _added_again(differences, warehouse, asked.pipeline)
        return tuple(_with_acceptance(recorded, found) for found in here)
    return (*differences, *zone_changes(recorded, asked, warehouse.bronze))


def _with_acceptance(recorded: Contract, found: Difference) -> Difference:
    for one in recorded.accepted:
        if found.is_to_be_accepted and one.is_of(found):
            return replace(found, accepted=f"{one.reason} ({one.by})")
    return found


def admit(pipeline: Pipeline, settings: Settings) -> Admitted:
    """Decide before a run writes anything. Raises PipelineChanged where it may not begin."""
    compared = compare_contracts(pipeline, settings)
    if compared.refused:
        raise PipelineChanged(contract_refusal(pipeline, settings, compared.refused))
    if compared.unfinished:
        return _finishing(pipeline, settings, compared)
    to_record = tuple(query for query in compared.queries if not _is_recorded(query))
    return Admitted(pipeline, to_record, tuple(str(found) for found in compared.differences))


def record_contracts(admitted: Admitted, warehouse: Warehouse) -> None:
    """Record the contracts behind the warehouse's fence, once the tables are there and before the
    first batch. Repeatable."""
    for query in admitted.to_record:
        contract = _to_record(query, warehouse)
        warehouse.fence()
        write_contract(query.place, contract, warehouse.options)


def _to_record(query: RecordedQuery, warehouse: Warehouse) -> Contract:
    """The contract of a query that begins, changed, or was recorded by another Tidemark."""
    contract, recorded = query.asked, query.recorded
    if recorded is not None:
        if recorded.says(contract) and not query.adopted:
            return recorded
        if never_committed(query, warehouse):
            _remove_state(query, warehouse)
        # Settings stay what they were with the first batch, whatever is asked for now.
        kept = {
            "settings": recorded.settings,
            "taken": _taken(recorded, contract),
            "seed": recorded.seed,
        }
        contract = contract.model_copy(update=kept)
    if query.name == INGEST:
        return contract
    return contract.with_types(column_types(warehouse.gold(query.name).existing()))


def _taken(recorded: Contract, asked: Contract) -> tuple[AcceptedChange, ...]:
    found = contract_differences(recorded, asked)
    now = (one for one in recorded.accepted if any(one.is_of(change) for change in found))
    return (*recorded.taken, *now)


@commit_point(
    "state of a query that committed nothing removed",
    after_a_kill="before and after: its first batch is repeated, and makes its state anew",
)
def _remove_state(query: RecordedQuery, warehouse: Warehouse) -> None:
    """The engine compares a changed query with the columns of state that the old one planned."""
    checkpoint = query.checkpoint
    state = FilePlace(checkpoint.uri, checkpoint.options, warehouse.fence).folder("state")
    state.remove_files(list(state.files()))


def _added_again(
    changes: tuple[Difference, ...], warehouse: Warehouse, asked: Pipeline
) -> Iterator[Difference]:
    """Changes of the ingest, where a new column may be one of before, whose values bronze has. One
    without values is new: a run that was killed before it recorded the change has made it. Bronze
    cannot get one that differs by its case alone from one of its own."""
    names = {f"source.columns.{name}": name for name in asked.source.columns}
    names |= {f"source.derive.{name}": name for name in asked.source.derive}
    for one in changes:
        is_new = one.verdict is ChangeVerdict.SAFE and one.before == "none" and one.what in names
        bronze = warehouse.bronze.open() if is_new else None
        known = {} if bronze is None else column_types(bronze)
        former = next((name for name in known if same_column(name, names[one.what])), None)
        if bronze is None or former is None:
            yield one
        elif former != names[one.what]:
            reason = (
                f"Bronze has the column `{former}`, maybe of a former file, and no table has two "
                "whose names differ by their case alone. Give it that name, or another one"
            )
            yield replace(one, verdict=ChangeVerdict.NOT_ALLOWED, reason=reason)
        elif _has_values(bronze, former):
            reason = (
                "Bronze has values of a former column of this name, and keeps them beside what is "
                "read from now on: keys, measures and `where` over it mix both meanings, in "
                "windows that are open and in closed ones that late rows touch"
            )
            yield replace(one, verdict=ChangeVerdict.TO_ACCEPT, reason=reason)
        else:
            yield one


def _has_values(bronze: DeltaTable, column: str) -> bool:
    values: Any = pc.field(column).is_valid()
    return bool(dataset_of(bronze).head(1, columns=[column], filter=values).num_rows)


def _in_bronze(
    changes: tuple[Difference, ...], warehouse: Warehouse, asked: Pipeline
) -> Iterator[Difference]:
    """Changes of the ingest, where a wider type is nothing to do once bronze has it."""
    anew = [one for one in changes if one.verdict is ChangeVerdict.NEW_GENERATION]
    bronze = warehouse.bronze.open() if anew else None
    types = {} if bronze is None else column_types(bronze)
    done = {
        f"source.columns.{name}"
        for name, column in asked.source.columns.items()
        if same_type(types.get(name, ""), column.type)
    }
    for one in changes:
        if one in anew and one.what in done:
            reason = "Bronze was written again with this type"
            yield replace(one, verdict=ChangeVerdict.SAFE, reason=reason)
        else:
            yield one


def _of_nothing(found: Difference) -> Difference:
    if not found.refused:
        return found
    reason = "No batch of the query was committed, so that its state and its table hold nothing"
    return replace(found, verdict=ChangeVerdict.SAFE, reason=reason)


def contract_refusal(
    pipeline: Pipeline, settings: Settings, refused: tuple[Difference, ...]
) -> str:
    """Why a run may not begin, what a way out costs, and what to do today."""
    lines = [f"The pipeline {pipeline.name} changed in a way that its tables cannot follow:"]
    lines += [f"  {found}" for found in refused[:_MOST_SHOWN]]
    if len(refused) > _MOST_SHOWN:
        lines.append(f"  … and {len(refused) - _MOST_SHOWN} more")
    lines.append("Nothing was written: tables and checkpoints are as the last run left them.")
    anew = sorted({one.query for one in refused if one.verdict is ChangeVerdict.NEW_GENERATION})
    if anew:
        bronze = Warehouse.of(pipeline.name, settings).bronze.open()
        rows = 0 if bronze is None else bronze.count()
        also = " and bronze be written again" if INGEST in anew else ""
        tables = ", ".join(name for name in anew if name != INGEST) or "its tables"
        lines.append(
            f"A new generation of {tables} would read {rows:,} rows of bronze again{also}; "
            f"`tidemark migrate {pipeline.name} --dry-run` says what becomes of the windows, and "
            "without --dry-run does it. Or put the old content back."
        )
    if any(found.verdict is ChangeVerdict.NOT_ALLOWED for found in refused):
        lines.append(
            "What is not allowed: put it back, or give the pipeline's file a new name, so that it "
            "starts from its source again."
        )
    if any(found.is_to_be_accepted for found in refused):
        lines.append(
            "What needs to be accepted: put it back, or let the next run take it: "
            f'`tidemark accept {pipeline.name} --reason "…"`.{_going(pipeline, settings, refused)}'
        )
    return "\n".join(lines)


def _going(pipeline: Pipeline, settings: Settings, refused: tuple[Difference, ...]) -> str:
    """What would go of bronze for good, where `keep` is asked about and it can be told."""
    if not any(found.is_to_be_accepted and found.what == KEEP for found in refused):
        return ""
    with suppress(TidemarkError):
        bronze = Warehouse.of(pipeline.name, settings)
        if dates := expired_dates(pipeline, bronze):
            rows = rows_of_dates(bronze.bronze.existing(), dates)
            span = f"{len(dates):,} dates from {dates[0]} to {dates[-1]}"
            return f" By the newest batch, {rows:,} rows of {span} would go from bronze."
    return ""


def _is_recorded(query: RecordedQuery) -> bool:
    if query.recorded is None or query.adopted:
        return False
    is_ours = query.recorded.tidemark == told_version()
    return is_ours and query.recorded.says(query.asked)


def _finishing(pipeline: Pipeline, settings: Settings, compared: Comparison) -> Admitted:
    """A run of the content that planned the batches left; all of it, because what a run writes
    in one query the next one reads. So every other query has to be able to run by it: not a table
    that was migrated since."""
    ingest = next(query for query in compared.queries if query.name == INGEST)
    left = [f"{query.name} {query.checkpoint.restart_case()}" for query in compared.unfinished]
    recorded = compared.unfinished[0].recorded
    others = [query.recorded for query in (*compared.unfinished, ingest)]
    planned_alike = recorded and all(one and one.is_of(recorded.pipeline) for one in others)
    if (
        recorded is None
        or not planned_alike
        or compare_contracts(recorded.pipeline, settings).refused
    ):
        raise PipelineChanged(
            f"The pipeline {pipeline.name} changed while batches were left uncommitted "
            f"({', '.join(left)}), and these were planned by another content of its file than its "
            f"other queries run by now. Nothing was written. Run it once with "
            f"{compared.unfinished[0].name} as it was when the batch was planned (it stands in "
            f"{compared.unfinished[0].place}), and all else as it is; then the change can be made."
        )
    messages = (
        f"this run finishes what an earlier one began ({', '.join(left)}) with the pipeline as it "
        "was then; the next run takes the change:",
        *(str(found) for found in compared.differences),
    )
    # What is published is judged by the checks of today, and the process may be there already.
    finishing = recorded.pipeline.with_checks_of(pipeline).with_process_of(pipeline)
    return Admitted(finishing, messages=messages)


def left_begun(query: RecordedQuery, warehouse: Warehouse) -> bool:
    """Did a run leave a batch of which a table holds something? Then it ends as it was begun.

    True also where the checkpoint does not say which query it is of.
    """
    planned = _left(query)
    if planned is None:
        return False
    query_id = query.checkpoint.query_id()
    if query_id is None:
        return True
    versions = [
        None if (table := place.open()) is None else table.transaction_version(query_id)
        for place in _tables(query, warehouse)
    ]
    return any(version is not None and version >= planned for version in versions)


def never_committed(query: RecordedQuery, warehouse: Warehouse) -> bool:
    """Has a table's query planned its first batch, and does the table hold nothing yet?"""
    if query.name == INGEST or query.migrated or _left(query) != 0:
        return False
    return query.checkpoint.last_batch("commits") is None and not left_begun(query, warehouse)


def _reads_what_it_did(query: RecordedQuery) -> bool:
    """Does a table's query ask for the bronzes that its first batch was planned over? The offsets
    name these, and the engine goes on with no others."""
    contracts = query.recorded or query.asked, query.asked
    before, after = (other_pipelines(operator_of(one.pipeline, query.name)) for one in contracts)
    return before == after


def _left(query: RecordedQuery) -> int | None:
    """The batch that was planned and not committed."""
    planned = query.checkpoint.last_batch("offsets")
    is_left = query.checkpoint.restart_case().startswith("repeats")
    return planned if is_left else None


def _tables(query: RecordedQuery, warehouse: Warehouse) -> tuple[TablePlace, ...]:
    if query.name == INGEST:
        return warehouse.bronze, warehouse.rejects
    return (warehouse.changes(query.name, query.generation),)
