"""A migration: a table's next generation, computed from bronze, takes the place of the one in use.

The life of a migration:
1. compute every window from bronze as it is now, closed and open ones, by the pipeline's file
   (`computed.py`), while runs go on; those that are frozen stay as gold has them
   (`gold/migrated.py`);
2. from here on under the pipeline's lease: catch up with what those runs have added to bronze, and
   hold what gold would be to the table's checks (`gate.py`);
3. claim the next number: its contract, with what it begins from (`Seed`);
4. give its query an id, which gold notes: a checkpoint without a batch;
5. make its table `changes`, and append all windows to it, cause `migration`, as batch -1 of the
   query, and of those that fail the whole query that it leaves them out; write the ledger's line,
   which says that they hold each assignment of bronze;
6. one commit of gold: columns, rows, and the transactions that name the generation.
Killed anywhere before 6, gold, its generation and their runs are as they were, and a repeat takes
the next number; nothing reads what was left. After 6 a repeat finds nothing that differs.

The query's first batch comes with the next run. It reads bronze anew, but only rows that can touch
an open window, and emits what gold shows already, with the rows that came since. Rows that came
since for closed windows are late to it, and repaired by that run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow.dataset import Dataset
from pyspark.sql import SparkSession

from tidemark.commit_point import commit_point
from tidemark.errors import MigrationRefused, TableLost
from tidemark.gold.checkpoints import query_checkpoint
from tidemark.gold.compared import Compared
from tidemark.gold.failing import failing_when_computed
from tidemark.gold.migrated import Former, NextGold, compared, migrated_windows, rows_of
from tidemark.gold.pins import Dependency, Published, TableResult
from tidemark.gold.plan import CHANGES, PublishPlan, noted_of
from tidemark.gold.published import published_note
from tidemark.gold.recomputed import rows_of_changes
from tidemark.gold.row_values import time_literal
from tidemark.ledger.ledger import check_balance
from tidemark.ledger.lines import recomputed_lines
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE, Equation, Operator, listed
from tidemark.operators.other_inputs import check_others_are_there, other_places
from tidemark.operators.repaired import FAILED, MIGRATION, Recomputed
from tidemark.pipeline.column_types import is_wider
from tidemark.recompute.gold_before import gold_before, rows_before
from tidemark.recompute.predecessors import Predecessors
from tidemark.recompute.table_change import Change
from tidemark.runs.accounts import write_lines
from tidemark.runs.contract.contract import (
    Contract,
    Seed,
    contract_of,
    write_contract,
)
from tidemark.runs.contract.recorded import types_of
from tidemark.runs.found import QUERY, FoundTable, found_of
from tidemark.runs.generations import next_generation
from tidemark.runs.run import Run, TableRun
from tidemark.storage.delta.append import conformed, on_this_version, with_sound_bounds
from tidemark.storage.delta.appended import entry_mark
from tidemark.storage.delta.by_hand import commits_by_hand
from tidemark.storage.delta.create import ensure_table
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.delta.notes import EmittedNote, PublishedNote
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import answers
from tidemark.storage.files import write_bytes
from tidemark.streaming.planned_columns import plan_columns
from tidemark.streaming.recompute.computed import (
    Computed,
    RowsLeftOut,
    caught_up,
    compute,
    computed_from_gold,
    counted_in,
    range_of,
    reading_at,
    shown,
)
from tidemark.streaming.run.append import append
from tidemark.streaming.run.ensure_tables import changes_spec, gold_spec
from tidemark.streaming.schemas import changes_schema, gold_schema

_UNBALANCED = (
    "Nothing was written. The windows that were computed do not hold the rows that bronze has of "
    "them: did something else write to bronze meanwhile? Repeat the migration."
)
# The batch of a query that its generation begins with: before its first one.
_SEED_BATCH = -1


@dataclass(frozen=True)
class Migration:
    """What a migration found, and what gold is to be.

    `computed` are all windows that gold can show and that are not frozen, `excluded` those that the
    query has to leave out, from bronze at version `bronze` and other inputs at those of `others`:
    identity, values and FAILURE. `gold` is None where it is gone, and `gold_is_lost` also where it
    was never published: then the state of `table` is what other places tell of it.
    `schema_json` and `changes_json` are the columns of gold and of `changes`, as Delta writes them.
    """

    table: TableRun
    gold: DeltaTable | None
    gold_is_lost: bool
    former: Former
    former_operator: Operator
    to: NextGold
    computed: pa.Table
    excluded: pa.Table
    bronze: int
    others: Mapping[str, int]
    schema_json: str
    changes_json: str

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def operator(self) -> Operator:
        return self.to.operator

    @property
    def inputs(self) -> dict[str, int]:
        """The versions of all that the rows were computed from."""
        return {BRONZE: self.bronze, **self.others}

    @property
    def schema(self) -> pa.Schema:
        """Gold's columns."""
        return self.to.schema

    @property
    def kept(self) -> None:
        """All rows are written."""

    @property
    def plan(self) -> PublishPlan:
        """The frontier stays where it is; the numbers are those of gold before."""
        state = self.table.state
        return PublishPlan(
            gold_version=state.version,
            after_changes=state.changes,
            changes=state.changes,
            after_inputs=state.inputs,
            inputs=self.inputs,
            close_before_ms=state.close_ms,
            close_after_ms=state.close_ms,
            generation=state.generation,
        )

    def windows(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """`before` and `written`, as `migrated_windows` has them."""
        return migrated_windows(self.former, self.computed, self.to)

    def compared(self) -> Compared:
        """How what is to come differs from what is there."""
        with self.windows() as connection:
            return compared(connection, self.former, self.to)


def compute_table(
    spark: SparkSession, run: Run, name: str, change: Change, left_out: RowsLeftOut | None = None
) -> Computed:
    """All windows of a table by the pipeline's file; needs no lease.

    Bronze is read as it is now: rows of a held run, and of a killed one, are in gold then. Where
    rows are left out of it, gold has to stand for all of it.
    """
    operator = operator_of(run.pipeline, name)
    check_others_are_there(operator, run.warehouse)
    found = gold_before(run, name, operator, change)
    if left_out is not None and not (found.is_lost or change.differences):
        table = TableRun(run, name, found.state)
        of_gold = computed_from_gold(spark, table, operator, found.frozen_before_ms, left_out)
        if of_gold is not None:
            return of_gold
    failing = _known_failing(run, operator, name, found.state.generation, change.predecessors)
    return compute(spark, run, operator, found.frozen_before_ms, failing, left_out)


def _known_failing(
    run: Run, operator: Operator, name: str, former: int, predecessors: Predecessors
) -> pa.Table | None:
    """What failed in the former generation, where its rows are the same by the same names."""
    changes = run.warehouse.changes(name, former).open()
    identity = predecessors.identity or {}
    if changes is None or any(identity.get(column) != column for column in operator.identity):
        return None
    return failing_when_computed(changes, operator, former)


def plan_migration(
    spark: SparkSession, run: Run, name: str, change: Change, before: Computed
) -> Migration:
    """What `before` comes to by now, beside gold; nothing is written."""
    operator = operator_of(run.pipeline, name)
    found = gold_before(run, name, operator, change)
    state, frozen = found.state, found.frozen_before_ms
    computed = caught_up(spark, run, operator, frozen, before)
    operator = reading_at(operator, run, computed.others)
    aggregated = plan_columns(spark, run.pipeline).aggregated[name]
    schema_json = gold_schema(aggregated, operator.table.comments).json()
    schema = pa.schema(Schema.from_json(schema_json).to_arrow())  # type: ignore[arg-type]
    to = NextGold(schema, operator, state.close_ms, frozen, run.run_id)
    former = _former(rows_before(run, name, found, change), change.predecessors, schema)
    _check_frozen(name, former, to)
    return Migration(
        table=TableRun(run, name, state),
        gold=found.table,
        gold_is_lost=found.is_lost,
        former=former,
        former_operator=change.former,
        to=to,
        computed=shown(computed, run, operator, state.close_ms, frozen),
        excluded=computed.excluded,
        bronze=computed.bronze,
        others=computed.others,
        schema_json=schema_json,
        changes_json=changes_schema(aggregated).json(),
    )


def _former(rows: Dataset | None, found: Predecessors, schema: pa.Schema) -> Former:
    if rows is None:
        return Former(schema.empty_table(), None, {}, frozenset())
    old = rows.schema
    comparable = {
        name: former
        for name, former in found.values.items()
        if _comparable(schema.field(name).type, old.field(former).type)
    }
    same_types = {
        name
        for name, old_name in comparable.items()
        if _holds(schema.field(name).type, old.field(old_name).type)
    }
    return Former(
        rows=rows,
        identity=found.identity,
        values=comparable,
        kept=found.kept & same_types,
        other_types=len(comparable) < len(found.values),
    )


def _comparable(one: pa.DataType, other: pa.DataType) -> bool:
    return one == other or (_is_number(one) and _is_number(other)) or _holds(one, other)


def _holds(kind: pa.DataType, former: pa.DataType) -> bool:
    """Has a type each value of a former one, as it is?"""
    if kind == former:
        return True
    if pa.types.is_date(former):
        return pa.types.is_timestamp(kind)
    return is_wider(_type_text(kind), _type_text(former))


def _type_text(kind: pa.DataType) -> str:
    names = {"int8": "byte", "int16": "short", "int32": "int", "int64": "long"}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return names.get(str(kind), str(kind))


def _check_frozen(table: str, former: Former, to: NextGold) -> None:
    """MigrationRefused where a frozen row has a whole number that a double does not hold."""
    if to.frozen_before_ms is None or former.identity is None:
        return
    kept = sorted(former.kept & former.values.keys())
    values = {name: former.values[name] for name in kept}
    for name, old in {**former.identity, **values}.items():
        if not pa.types.is_float64(to.schema.field(name).type):
            continue
        if not pa.types.is_integer(former.rows.schema.field(old).type):
            continue
        sql = f"""SELECT "{old}" FROM former WHERE abs("{old}"::HUGEINT) > {2**53}
            AND window_start < {time_literal(to.frozen_before_ms)} LIMIT 1"""
        if found := answers(sql, former=former.rows):
            raise MigrationRefused(
                f"Frozen rows of {table} have values of {name} that a double does not "
                f"hold, such as {found[0][0]}. Nothing was written. Keep the former type."
            )


def _is_number(kind: pa.DataType) -> bool:
    return any(
        is_a(kind) for is_a in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    )


def balanced(plan: Migration) -> Recomputed:
    """What was computed, as the ledger tells it. Raises LedgerUnbalanced where it does not hold
    each assignment of bronze; nothing is written then."""
    operator, bronze = plan.operator, plan.table.bronze.at_version(plan.bronze)
    rows = range_of(operator, bronze, plan.table.state.close_ms, plan.to.frozen_before_ms)
    in_bronze = counted_in(bronze, operator, rows)
    computed = pc.sum(plan.computed.column("rows")).as_py() or 0
    found = Recomputed(MIGRATION, plan.computed.num_rows, computed, in_bronze, computed)
    lines = list(recomputed_lines(plan.name, "", {MIGRATION: plan.bronze}, [found]))
    check_balance(plan.table.pipeline.name, lines, _UNBALANCED)
    return found


def apply_migration(plan: Migration, recomputed: Recomputed, note: PublishedNote) -> TableResult:
    """Claim a generation, fill its `changes`, and commit gold; what gold rests on from then on."""
    run, name = plan.table.run, plan.name
    generation = next_generation(run.warehouse, name)
    contract = _contract(plan)
    run.fence()
    write_contract(run.places.contract(name, generation), contract, run.settings.storage_options)
    query = _begin_query(plan, generation)
    changes = run.warehouse.changes(name, generation)
    ensure_table(changes, changes_spec(run.pipeline, name, plan.changes_json))
    _fill(plan, changes, generation, query)
    lines = list(recomputed_lines(name, query, {MIGRATION: plan.bronze}, [recomputed]))
    write_lines(run, lines)
    table = changes.existing()
    support = Dependency(id=str(table.metadata().id), at=table.version())
    pinned = _pins(plan, generation, support, query)
    return _publish(plan, pinned, note)


def _contract(plan: Migration) -> Contract:
    """What the next generation's query is started with."""
    run = plan.table.run
    contract = contract_of(run.pipeline, plan.name, run.settings)
    return contract.with_types(types_of(plan.schema_json)).model_copy(
        update={"seed": Seed(bronze=plan.bronze, others=dict(plan.others))}
    )


@commit_point(
    "query of a generation named",
    after_a_kill="before and after: no gold names the generation, and nothing reads it; a repeated "
    "migration takes the next number",
)
def _begin_query(plan: Migration, generation: int) -> str:
    """The engine takes the id that it finds in a checkpoint (class StreamMetadata)."""
    query = str(uuid4())
    checkpoint = query_checkpoint(plan.table.warehouse, plan.name, generation)
    write_bytes(
        f"{checkpoint.uri}/metadata", json.dumps({"id": query}).encode(), checkpoint.options
    )
    return query


@commit_point(
    "windows of a generation",
    after_a_kill="before and after: no gold names the generation, and nothing reads it; a repeated "
    "migration takes the next number",
)
def _fill(plan: Migration, changes: TablePlace, generation: int, query: str) -> None:
    note = EmittedNote(
        query=query,
        batch=_SEED_BATCH,
        close_ms=plan.table.state.close_ms,
        emitted_rows=_in_bronze(plan),
    )
    append(_rows_of_changes(plan, generation), changes, query, _SEED_BATCH, note)


def _in_bronze(plan: Migration) -> int | None:
    """What a batch that emits all of bronze would sum up, frozen windows among it; but not what it
    leaves out."""
    operator = plan.operator
    if operator.traits.equation is not Equation.ALL:
        return None
    bronze = plan.table.bronze.at_version(plan.bronze)
    rows = range_of(operator, bronze, plan.table.state.close_ms, None)
    excluded = pc.sum(plan.excluded.column("rows")).as_py() or 0
    return 0 if rows is None else operator.rows_in(bronze).count_starting(rows, "true") - excluded


def _rows_of_changes(plan: Migration, generation: int) -> pa.Table:
    """What was computed, and the frozen rows that stay: gold can be built again from all of it."""
    with plan.windows() as connection:
        names = [name for name in plan.computed.column_names if name != FAILURE]
        frozen = connection.sql(
            f"SELECT {listed(names)}, NULL AS {FAILURE} FROM written WHERE _seen = 'frozen'"
        ).to_arrow_table()
    rows = pa.concat_tables([plan.computed, conformed(frozen, plan.computed.schema)])
    schema = pa.schema(Schema.from_json(plan.changes_json).to_arrow())  # type: ignore[arg-type]
    noted = (generation, plan.table.run_id, _SEED_BATCH)
    return pa.concat_tables(
        [
            rows_of_changes(schema, plan.excluded, FAILED, *noted),
            rows_of_changes(schema, rows, MIGRATION, *noted),
        ]
    )


def _pins(plan: Migration, generation: int, changes: Dependency, query: str) -> TableResult:
    run, state = plan.table.run, plan.table.state
    before = found_of(run.pipeline, run.warehouse, plan.name)
    _check_not_by_hand(plan, before.bronze)
    former = {one.name for one in before.others}
    found = {name: one for name, one in before.rests_on().items() if name not in former}
    found |= {CHANGES: changes, QUERY: Dependency(id=query, at=_SEED_BATCH)}
    for name, place in other_places(plan.operator, run.warehouse).items():
        at = plan.others[name]
        identity = str(place.existing().metadata().id)
        found[name] = Dependency(id=identity, at=at, entry=entry_mark(place, at))
    return TableResult(
        generation=generation,
        changes=changes.at,
        inputs=plan.inputs,
        rests_on=found,
        windows_changed=plan.computed.num_rows,
        watermark_before_ms=0,
        watermark_after_ms=0,
        close_before_ms=state.close_ms,
        close_after_ms=state.close_ms,
    )


def _check_not_by_hand(plan: Migration, bronze: FoundTable) -> None:
    """TableLost where rows of bronze were changed by hand since the windows were computed.

    Gold notes bronze as it is now, and later looks ask for what comes behind that."""
    if bronze.table is None:
        return
    if by_hand := commits_by_hand(bronze.table, bronze.place, plan.bronze):
        name = plan.table.pipeline.name
        raise TableLost(
            f"{bronze.uri} was changed by something else than Tidemark while {plan.name} was "
            f"computed: {', '.join(map(str, by_hand))}. Gold is as it was, and its generation goes "
            "on. Was it a mistake, bring the table back; was it meant, say so: `tidemark accept "
            f"{name}`. Then repeat this."
        )


def _publish(plan: Migration, pinned: TableResult, note: PublishedNote) -> TableResult:
    place = plan.table.gold
    with plan.windows() as connection:
        rows = rows_of(connection, plan.to)
        ((windows, start, end),) = connection.execute(
            "SELECT count(*), epoch_ms(min(window_start)), epoch_ms(max(window_end)) FROM written"
        ).fetchall()
    changed = Published(windows=windows, start_ms=start, end_ms=end) if windows else None
    committed = replace(
        plan.plan,
        changes=pinned.changes,
        generation=pinned.generation,
        rests_on=noted_of(pinned.rests_on, {}),
    )
    # Of gold that is gone an empty one is made first: killed here, it is told as one of before.
    gold = plan.gold or ensure_table(place, gold_spec(plan.operator.table, plan.schema_json))
    place.fence()
    _commit(gold, rows, committed.transactions, published_note(note, changed))
    return pinned.model_copy(
        update={
            "gold": gold.version(),
            "published_windows": windows,
            "published": changed,
        }
    )


@commit_point(
    "gold of another generation",
    after_a_kill="before: gold is as it was, and so are its runs; after: gold names the generation",
)
def _commit(
    gold: DeltaTable, rows: pa.Table, transactions: dict[str, int], note: PublishedNote
) -> None:
    """Columns, rows and transactions in one commit, on the version that was read.

    StorageUnavailable when another one came first.
    """
    try:
        write_deltalake(
            gold,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=gold.metadata().partition_columns,
            commit_properties=on_this_version(note, transactions),
            writer_properties=with_sound_bounds(rows.schema),
        )
    except CommitFailedError as error:
        raise not_committed(
            gold.table_uri,
            error,
            f"{gold.table_uri} got another commit while this migration read version "
            f"{gold.version()} ({error}). Gold is as that commit left it. Try again.",
        ) from error
