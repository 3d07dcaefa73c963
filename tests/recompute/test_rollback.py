"""What is in the way of a rollback, and what it brings back, told without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.end_to_end.test_generations_of_joins import PLAIN_KIND
from tests.end_to_end.test_retention_of_joins import Kept, OtherKept
from tests.end_to_end.test_retention_of_joins import at as ago
from tests.kit.running import Place, clicks
from tests.kit.windows import LENGTH, Windows, at, millis, window
from tests.operators.contract.kinds import TABLE
from tests.operators.test_batches_read import write
from tidemark.cli.migrate import _roll_back
from tidemark.errors import MigrationRefused
from tidemark.gold.other_readers import OtherReader, other_readers
from tidemark.gold.retention import drop_expired_dates, expired_dates
from tidemark.recompute.rollback import plan_rollback, roll_back
from tidemark.runs.contract.contract import Seed, contract_of, write_contract
from tidemark.storage.delta.fence import PROPERTY
from tidemark.storage.delta.notes import AcceptedNote, IngestNote, PublishedNote, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.storage.generation import generation_in_use

# A row of bronze, and one of gold: when, its amount, its status and its revision.
Row = tuple[datetime, int]
GoldRow = tuple[datetime, int, str, int]


@dataclass
class Migrated:
    """A pipeline whose first generation has published two windows, of which the first is closed,
    and that a migration has left on day 5."""

    place: Place
    query: str = field(default_factory=lambda: str(uuid4()))
    ingested: int = -1
    windows: Windows = field(init=False)

    CLOSED, OPEN = at(10), at(12, day=5)
    CLOSE = at(11, day=5)

    def __post_init__(self) -> None:
        self.ingest((at(10, 1), 1), (self.OPEN, 9))
        self.windows = self.place.windows()
        self.windows.change(
            window(self.CLOSED, key="a", total=1), window(self.OPEN, key="a", total=9)
        )
        self.windows.publish(self.windows.pin(self.CLOSE, bronze=0))
        former = Path(self.place.places.query_checkpoint("per_10m", 1))
        batch(former, str(uuid4()), read_up_to(self.place, 1), self.OPEN)
        self.it_is(at(13, day=5))

    def it_is(self, now: datetime) -> None:
        """The time of the newest batch."""
        checkpoint = Path(self.place.places.ingest_checkpoint)
        batch(checkpoint, self.query, {"logOffset": 0}, now)

    def ingest(self, *rows: Row) -> None:
        self.ingested += 1
        table = pa.table(
            {
                "at": pa.array([when for when, _ in rows], pa.timestamp("us", "UTC")),
                "key": ["a"] * len(rows),
                "amount": [amount for _, amount in rows],
                "_event_date": [when.date() for when, _ in rows],
            }
        )
        counts = Rows(read=len(rows), accepted=len(rows), rejected={})
        properties = CommitProperties(
            custom_metadata=as_metadata(
                IngestNote(query=self.query, batch=self.ingested, rows=counts)
            ),
            app_transactions=[Transaction(self.query, self.ingested)],
        )
        write_deltalake(
            self.place.places.bronze,
            table,
            mode="append",
            partition_by=["_event_date"],
            commit_properties=properties,
        )

    def migrate(self, *rows: GoldRow) -> None:
        """The migration's commit of gold, which holds these rows then."""
        transactions = {"generation": 2, "changes": 0, "bronze": self.ingested}
        self.publish(rows, rows[0][0], transactions, "migration")

    def publish(
        self,
        rows: Sequence[GoldRow],
        first: datetime | None,
        transactions: dict[str, int] | None = None,
        trigger: str | None = None,
    ) -> None:
        """A publish of the second generation, of which gold holds these rows then; the first that
        it changed starts at `first`."""
        gold = self.windows.gold_table()
        held = [
            {
                "window_start": start,
                "window_end": start + LENGTH,
                "key": "a",
                "total": total,
                "rows": 1,
                "status": status,
                "revision": revision,
                "updated_by": "second",
                "window_date": start.date(),
            }
            for start, total, status, revision in rows
        ]
        note = PublishedNote(run="second", started_at=self.CLOSE, trigger=trigger)
        if first is not None:
            ranged = {"windows": 1, "start_ms": millis(first), "end_ms": millis(first + LENGTH)}
            note = note.model_copy(update=ranged)
        noted = transactions or {"changes": 1, "bronze": self.ingested}
        properties = CommitProperties(
            custom_metadata=as_metadata(note),
            app_transactions=[Transaction(app, number) for app, number in noted.items()],
        )
        schema = pa.table(gold.to_pyarrow_table()).schema
        write_deltalake(
            gold,
            pa.Table.from_pylist(held, schema),
            mode="overwrite",
            commit_properties=properties,
        )

    def totals(self) -> list[Any]:
        return [total for (total,) in self.windows.gold("total")]

    def back(self) -> None:
        warehouse = self.place.warehouse
        plan = plan_rollback(self.place.pipeline, warehouse, "per_10m")
        roll_back(plan, warehouse, "back", datetime.now(UTC))


def read_up_to(place: Place, version: int) -> dict[str, Any]:
    """The offset of a query that reads bronze from this version on next."""
    table = str(DeltaTable(place.places.bronze).metadata().id)
    return {"sourceVersion": 1, "reservoirId": table, "reservoirVersion": version, "index": -1}


def batch(checkpoint: Path, query: str, offset: dict[str, Any], now: datetime) -> None:
    """One batch of a query, committed at this time of its clock."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": millis(now)}
    write(checkpoint / "offsets" / "0", metadata, offset)
    write(checkpoint / "commits" / "0", {"nextBatchWatermarkMs": 0})
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))


@pytest.fixture
def kept(tmp_path: Path) -> Migrated:
    """Rows are kept for a week."""
    return Migrated(Place(tmp_path, clicks(keep="7 days")))


SAME: tuple[GoldRow, ...] = ((at(10), 1, "final", 0), (at(12, day=5), 9, "provisional", 0))
CORRECTED: tuple[GoldRow, ...] = ((at(10), 101, "corrected", 1), *SAME[1:])
AGO = [ago(10), ago(1)]
FROZEN = "windows that are frozen by now"


@pytest.mark.parametrize("dropped", [False, True])
def test_a_corrected_window_that_is_frozen_by_now_is_no_more_taken_back(
    kept: Migrated, dropped: bool
) -> None:
    """The next run of the former generation would meet the row, and leave the window."""
    kept.migrate(*SAME)
    kept.ingest((at(10, 2), 100))
    kept.publish(CORRECTED, at(10))
    # While a run can mend it, it goes back.
    kept.it_is(at(9, day=8))
    assert plan_rollback(kept.place.pipeline, kept.place.warehouse, "per_10m")
    kept.it_is(at(13, day=9))
    if dropped:
        assert drop_expired_dates(kept.place.pipeline, kept.place.warehouse) == (at(10).date(),)
    with pytest.raises(MigrationRefused, match=FROZEN):
        kept.back()
    assert kept.totals() == [101, 9]


def test_nor_is_one_that_the_migration_itself_has_corrected(kept: Migrated) -> None:
    """A run was held, or killed, and the migration took its rows."""
    kept.ingest((at(10, 2), 100))
    kept.migrate(*CORRECTED)
    assert plan_rollback(kept.place.pipeline, kept.place.warehouse, "per_10m")
    kept.it_is(at(13, day=9))
    with pytest.raises(MigrationRefused, match=FROZEN):
        kept.back()


def test_nor_are_windows_with_lookups_whose_copies_are_not_asked_for(tmp_path: Path) -> None:
    """A change of a lookup may be told by shorter windows than those that went."""
    dims = {"file": "dims.csv", "on": "key", "columns": {"price": "long"}}
    of_day = {
        "window": {"length": "1 day"},
        "group_by": ["key"],
        "measures": {"total": "sum(dims.price)"},
    }
    content = clicks(keep="7 days", lookup={"dims": dims}, tables={"per_10m": of_day})
    kept = Migrated(Place(tmp_path, content))
    kept.migrate(*SAME)
    assert plan_rollback(kept.place.pipeline, kept.place.warehouse, "per_10m")
    kept.publish(CORRECTED, at(10))
    kept.it_is(at(9, day=8))
    with pytest.raises(MigrationRefused, match=FROZEN):
        kept.back()


def test_nor_is_one_whose_change_no_row_tells(kept: Migrated) -> None:
    """As by a backfill."""
    kept.migrate(*SAME)
    kept.publish(CORRECTED, at(10), trigger="backfill")
    kept.it_is(at(13, day=9))
    with pytest.raises(MigrationRefused, match=FROZEN):
        kept.back()


@pytest.mark.parametrize("first", [at(12, day=5), at(0, day=5), None], ids=["same", "longer", ""])
def test_windows_that_were_open_then_go_back_however_old_they_are(
    kept: Migrated, first: datetime | None
) -> None:
    """Their rows are all there, also where the windows since are longer ones that had begun before.
    A note without a range tells of no window that changed."""
    kept.migrate(*SAME)
    kept.ingest((at(12, 3, day=5), 5))
    kept.publish((SAME[0], (at(12, day=5), 14, "final", 0)), first)
    kept.it_is(at(13, day=25))
    kept.back()
    assert kept.totals() == [1, 9]


def test_without_keep_nothing_is_frozen(tmp_path: Path) -> None:
    forever = Migrated(Place(tmp_path))
    forever.migrate(*SAME)
    forever.ingest((at(10, 2), 100))
    forever.publish(CORRECTED, at(10))
    forever.it_is(at(13, day=25))
    forever.back()
    assert forever.totals() == [1, 9]


def begin(migrated: Migrated, generation: int, bronze: int) -> None:
    """What a migration leaves beside gold for a generation, and its commit of gold."""
    place, query = migrated.place, str(uuid4())
    contract = contract_of(place.pipeline, "per_10m", place.settings)
    contract = contract.model_copy(update={"seed": Seed(bronze=bronze)})
    write_contract(place.places.contract("per_10m", generation), contract, {})
    checkpoint = Path(place.places.query_checkpoint("per_10m", generation))
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))
    schema = pa.table(DeltaTable(migrated.windows.changes_uri).to_pyarrow_table()).schema
    write_deltalake(place.places.changes("per_10m", generation), schema.empty_table())
    pins = {"generation": generation, "changes": 0, "bronze": bronze}
    migrated.publish(SAME, at(10), pins, "migration")


@pytest.fixture
def twice(tmp_path: Path) -> Migrated:
    """Migrated two times, and no run since the first."""
    found = Migrated(Place(tmp_path))
    for generation in (2, 3):
        begin(found, generation, found.ingested)
    return found


def test_a_generation_that_has_not_run_yet_is_gone_back_to_and_those_before_it(
    twice: Migrated,
) -> None:
    for generation in (2, 1):
        twice.back()
        assert generation_in_use(twice.place.warehouse, "per_10m") == generation


def test_what_came_in_bronze_since_such_a_generation_is_asked_as_of_any(twice: Migrated) -> None:
    twice.ingest((at(10, 2), 100))
    bronze = twice.place.warehouse.bronze
    (new,) = set(bronze.existing().file_uris()) - set(bronze.at_version(0).file_uris())
    Path(new).unlink()
    with pytest.raises(MigrationRefused, match=rf"the file {re.escape(new)} is gone"):
        twice.back()
    bronze.existing().delete("amount = 9")
    accepted(bronze)
    with pytest.raises(MigrationRefused, match="were changed by hand since its query has read it"):
        twice.back()


@pytest.mark.parametrize("file", ["metadata", "commits/0"])
def test_a_generation_whose_checkpoint_is_gone_is_not_gone_back_to(
    twice: Migrated, file: str
) -> None:
    """Also where what is left of it looks as if it had not run."""
    checkpoint = Path(twice.place.places.query_checkpoint("per_10m", 3))
    batch(checkpoint, str(uuid4()), read_up_to(twice.place, 2), at(12, day=5))
    twice.ingest((at(12, 1, day=5), 1))
    twice.publish(SAME, at(10), {"changes": 0, "bronze": 1})
    begin(twice, 4, 1)
    (checkpoint / file).unlink()
    with pytest.raises(MigrationRefused, match="its checkpoint is gone"):
        twice.back()
    assert generation_in_use(twice.place.warehouse, "per_10m") == 4


@pytest.fixture
def migrated(tmp_path: Path) -> Migrated:
    """Right behind its migration."""
    found = Migrated(Place(tmp_path))
    found.migrate(*SAME)
    return found


def test_rows_of_bronze_that_were_removed_by_hand_do_not_come_back(migrated: Migrated) -> None:
    """The former query passes over the commit, and its state holds them; so does gold of then."""
    bronze = migrated.place.warehouse.bronze
    bronze.existing().delete("amount = 1")
    accepted(bronze)
    migrated.publish(SAME[1:], at(10), trigger="backfill")
    with pytest.raises(MigrationRefused, match="were changed by hand since its query has read it"):
        migrated.back()
    assert migrated.totals() == [9]


def test_rows_that_were_added_by_hand_are_no_obstacle(migrated: Migrated) -> None:
    """To the query they are new rows."""
    bronze = migrated.place.warehouse.bronze
    write_deltalake(bronze.uri, bronze.existing().to_pyarrow_table(), mode="append")
    accepted(bronze)
    migrated.back()


def test_an_accepted_change_of_gold_is_not_undone(migrated: Migrated) -> None:
    gold = migrated.place.warehouse.gold("per_10m")
    gold.existing().delete("total = 1")
    accepted(gold)
    with pytest.raises(
        MigrationRefused, match=r"was accepted since [(]to be forgotten, by Ada"
    ) as no:
        migrated.back()
    assert "there again. Nothing was written; generation 2 goes on." in str(no.value)
    assert migrated.totals() == [9]


@pytest.mark.parametrize("up_to", [-1, 57], ids=["now", "by a former version"])
def test_what_was_accepted_of_the_bronze_that_a_join_reads_is_no_change_of_gold(
    migrated: Migrated, up_to: int
) -> None:
    """It is noted in gold all the same."""
    gold = migrated.place.warehouse.gold("per_10m")
    gold.existing().delete("total = 1")
    note = AcceptedNote(up_to=up_to, reason="a file was added", by="Ada")
    gold.existing().alter.set_table_properties(
        {"tidemark.accepted.other": str(up_to)},
        raise_if_not_exists=False,
        commit_properties=CommitProperties(custom_metadata=as_metadata(note)),
    )
    migrated.back()


def test_the_plan_says_that_a_change_of_gold_which_nobody_accepted_is_undone(
    migrated: Migrated,
) -> None:
    migrated.windows.gold_table().delete("total = 1")
    plan = plan_rollback(migrated.place.pipeline, migrated.place.warehouse, "per_10m")
    (told,) = [line for line in plan.lines() if "changed by hand" in line]
    assert "version 3 (DELETE" in told
    migrated.back()
    assert migrated.totals() == [1, 9]


def test_properties_that_were_set_since_stay(migrated: Migrated) -> None:
    """That of the lease too, which tells its owner."""
    gold = migrated.windows.gold_table()
    before = gold.metadata().configuration
    since = {"delta.deletedFileRetentionDuration": "interval 90 days", PROPERTY: "7"}
    gold.alter.set_table_properties(since, raise_if_not_exists=False)
    migrated.back()
    gold = migrated.windows.gold_table()
    assert gold.metadata().configuration == before | since
    assert migrated.totals() == [1, 9]
    with pytest.raises(MigrationRefused, match="there is nothing to go back to"):
        migrated.back()


def test_constraints_that_were_set_since_are_not_undone(migrated: Migrated) -> None:
    migrated.windows.gold_table().alter.add_constraint({"positive": "total > 0"})
    with pytest.raises(MigrationRefused, match=r"delta[.]constraints[.]positive"):
        migrated.back()
    assert migrated.totals() == [1, 9]


def test_nor_are_those_that_say_something_else_since(tmp_path: Path) -> None:
    migrated = Migrated(Place(tmp_path))
    migrated.windows.gold_table().alter.add_constraint({"positive": "total > 0"})
    migrated.migrate(*SAME)
    migrated.windows.gold_table().alter.drop_constraint("positive")
    migrated.windows.gold_table().alter.add_constraint({"positive": "total >= 0"})
    with pytest.raises(MigrationRefused, match=r"delta[.]constraints[.]positive"):
        migrated.back()


@pytest.mark.parametrize("has_run", [True, False])
def test_a_rollback_to_a_join_notes_itself_before_the_other_pipeline_drops_what_it_needs(
    tmp_path: Path, has_run: bool
) -> None:
    """The next run would note it; a run of the other pipeline may come first."""
    place, other = Kept(tmp_path), OtherKept(tmp_path, days=5)
    joined = {"key": ["a"] * 2, "amount": [1] * 2}
    for one, rows in ((place, {"at": AGO, **joined}), (other, {"ordered": AGO, "id": ["a"] * 2})):
        days = [when.date() for when in AGO]
        write_deltalake(
            one.places.bronze,
            pa.table({**rows, "cost": [1] * 2, "_event_date": days}),
            partition_by=["_event_date"],
        )
        ingest = Path(one.places.ingest_checkpoint)
        batch(ingest, str(uuid4()), {"logOffset": 0}, datetime.now(UTC))
    former = Path(place.places.query_checkpoint(TABLE, 1))
    batch(former, str(uuid4()), read_up_to(place, 1), datetime.now(UTC))
    frontier = {"bronze": 0, "close": millis(ago(1))}
    joins = {"generation": 1, "changes": 0, f"bronze/{other.name}": 0, **frontier}
    published(other, "hourly", {"generation": 1, "changes": 0, **frontier})
    published(place, TABLE, joins)
    contract = contract_of(place.pipeline, TABLE, place.settings)
    if not has_run:
        seed = Seed(bronze=0, others={f"bronze/{other.name}": 0})
        contract = contract.model_copy(update={"seed": seed})
        (former / "commits" / "0").unlink()
    write_contract(place.places.contract(TABLE, 1), contract, {})
    published(place, TABLE, {"generation": 2}, "migration")

    plain = replace(place, kind=PLAIN_KIND)
    plan_rollback(plain.pipeline, plain.warehouse, TABLE)
    assert other_readers(other.warehouse) == ()
    assert expired_dates(other.pipeline, other.warehouse) == (ago(10).date(),)
    _roll_back(plain.pipeline, plain.settings, TABLE, dry_run=False, by="Ada", reason=None)
    assert generation_in_use(place.warehouse, TABLE) == 1
    assert other_readers(other.warehouse) == (OtherReader(pipeline=place.name, table=TABLE),)
    assert drop_expired_dates(other.pipeline, other.warehouse) == ()


def published(
    place: Place, table: str, transactions: dict[str, int], trigger: str | None = None
) -> None:
    """A publish without rows, into gold that is made where there is none."""
    gold = Windows(Path(place.places.gold(table)).parent).gold_table()
    note = PublishedNote(run="run", started_at=datetime.now(UTC), trigger=trigger)
    noted = [Transaction(app, number) for app, number in transactions.items()]
    properties = CommitProperties(custom_metadata=as_metadata(note), app_transactions=noted)
    none = pa.table(gold.to_pyarrow_table()).slice(0, 0)
    write_deltalake(gold, none, mode="append", commit_properties=properties)


def accepted(place: TablePlace) -> None:
    """What was changed by hand so far."""
    note = AcceptedNote(up_to=place.existing().version(), reason="to be forgotten", by="Ada")
    place.existing().alter.set_table_properties(
        {"tidemark.accepted": str(note.up_to)},
        raise_if_not_exists=False,
        commit_properties=CommitProperties(custom_metadata=as_metadata(note)),
    )
