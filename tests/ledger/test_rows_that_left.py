"""What the ledger tells of batches whose rows were changed, or have left the tables, since."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.running import Place
from tests.kit.windows import at, millis
from tidemark.ledger.ledger import LedgerLine, check_ledger, settle_ledger, write_ledger
from tidemark.ledger.lines import ingest_lines
from tidemark.ledger.rebuild import Ledgered, _ingest_lines
from tidemark.storage.delta.by_hand import commits_by_hand
from tidemark.storage.delta.notes import AcceptedNote, IngestNote, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.upkeep.accept_changes import _accept

QUERY = "11111111-2222-3333-4444-555555555555"
NEW = date(2026, 7, 1)
BRONZE = pa.schema([("key", pa.string()), ("_batch", pa.int64()), ("_event_date", pa.date32())])
REJECTS = pa.schema([("key", pa.string()), ("_batch", pa.int64()), ("reason", pa.string())])
NUMBERS = ("batch", "read", "accepted", "rejected", "difference")
Numbers = tuple[int | None, ...]


@dataclass
class Ingested:
    """A pipeline with batches of ingest, and the ledger's lines of these."""

    root: Path

    def __post_init__(self) -> None:
        self.place = Place(self.root)
        self.warehouse = self.place.warehouse
        self.bronze, self.rejects = self.warehouse.bronze, self.warehouse.rejects
        self.folder = Path(self.place.run("run").ingest_checkpoint().uri)
        self._write("metadata", json.dumps({"id": QUERY}))
        for table, schema in ((self.bronze, BRONZE), (self.rejects, REJECTS)):
            dates = ["_event_date"] if schema is BRONZE else None
            DeltaTable.create(table.uri, schema, partition_by=dates)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def batch(self, number: int, *dates: date, rejected: int = 0) -> None:
        """A batch with an accepted row of each date, and rejects; its line too."""
        keys = [f"{number}-{one}" for one in range(len(dates) + rejected)]
        accepted = [rows_of(number, key, day) for key, day in zip(keys, dates, strict=False)]
        others = [{"key": key, "_batch": number, "reason": "future"} for key in keys[len(dates) :]]
        reasons = {"future": rejected} if rejected else {}
        counts = Rows(read=len(keys), accepted=len(dates), rejected=reasons)
        note = as_metadata(IngestNote(query=QUERY, batch=number, rows=counts, run="run"))
        for table, rows, schema in (
            (self.bronze, accepted, BRONZE),
            (self.rejects, others, REJECTS),
        ):
            if rows:
                append(table, pa.Table.from_pylist(rows, schema), note)
        offsets = {"batchWatermarkMs": 0, "batchTimestampMs": number, "conf": {}}
        self._write(f"offsets/{number}", f'v1\n{json.dumps(offsets)}\n{{"logOffset":{number}}}')
        self._write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
        tables = self.bronze.existing(), self.rejects.existing()
        lines = ingest_lines(*tables, QUERY, number - 1)
        run = f"run-{number}"
        write_ledger(self.warehouse.ledger, self.place.name, run, millis(at(12)), lines, at(12))

    def accept(self, table: TablePlace) -> None:
        """What was changed by hand, as `tidemark accept` does."""
        (*_, last) = commits_by_hand(table.existing(), table, -1)
        _accept(table, AcceptedNote(up_to=last.version, reason="meant", by="me"))
        assert commits_by_hand(table.existing(), table, -1) == []

    def rebuilt(self) -> list[LedgerLine]:
        return list(_ingest_lines(Ledgered(self.place.pipeline, self.warehouse)))

    def settle(self) -> None:
        """The ledger as a rewind leaves it."""
        ledger, name = self.warehouse.ledger, self.place.name
        settle_ledger(ledger, name, self.rebuilt(), "R1", QUERY, at(13))

    def lines(self, counting: bool = True) -> list[Numbers]:
        rows = self.place.table(self.place.places.ledger).to_pylist()
        found = [row for row in rows if (row["rewound"] is None) == counting]
        return sorted(tuple(row[name] for name in NUMBERS) for row in found)


def rows_of(batch: int | None, key: str, day: date = NEW) -> dict[str, Any]:
    return {"key": key, "_batch": batch, "_event_date": day}


def append(table: TablePlace, rows: pa.Table, note: dict[str, str] | None = None) -> None:
    noted = CommitProperties(custom_metadata=note)
    write_deltalake(table.uri, rows, mode="append", commit_properties=noted)


def numbers(lines: list[LedgerLine]) -> list[Numbers]:
    return [tuple(getattr(line, name) for name in NUMBERS) for line in lines]


def removed_of_bronze(world: Ingested) -> TablePlace:
    DeltaTable(world.bronze.uri).delete("key = '0-0'")
    return world.bronze


def removed_of_rejects(world: Ingested) -> TablePlace:
    DeltaTable(world.rejects.uri).delete("key = '0-2'")
    return world.rejects


def added_to_bronze(world: Ingested) -> TablePlace:
    append(world.bronze, pa.Table.from_pylist([rows_of(0, "other")], BRONZE))
    return world.bronze


CHANGES = [removed_of_bronze, removed_of_rejects, added_to_bronze]


@pytest.fixture
def world(tmp_path: Path) -> Ingested:
    return Ingested(tmp_path)


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_were_changed_by_hand_and_accepted_leave_the_lines_of_their_batches(
    world: Ingested, change: Callable[[Ingested], TablePlace]
) -> None:
    world.batch(0, NEW, NEW, rejected=1)
    written = [(0, 3, 2, 1, 0)]
    table = change(world)
    assert numbers(world.rebuilt()) != written
    world.accept(table)
    assert numbers(world.rebuilt()) == written
    world.settle()
    assert (world.lines(), world.lines(counting=False)) == (written, [])
    check_ledger(world.warehouse.ledger, world.place.name)
    # What was not accepted is missed as ever.
    world.batch(1, NEW)
    DeltaTable(world.bronze.uri).delete("key = '1-0'")
    assert numbers(world.rebuilt()) == [*written, (1, 1, 0, 0, 1)]


@pytest.mark.parametrize("number", [None, 7])
def test_rows_that_were_added_by_hand_without_a_batch_that_was_read_have_no_line(
    world: Ingested, number: int | None
) -> None:
    world.batch(0, NEW, rejected=1)
    append(world.bronze, pa.Table.from_pylist([rows_of(number, "other")], BRONZE))
    rejected = [{"key": "other", "_batch": number, "reason": "future"}]
    append(world.rejects, pa.Table.from_pylist(rejected, REJECTS))
    world.accept(world.bronze)
    world.accept(world.rejects)
    written = [(0, 2, 1, 1, 0)]
    assert numbers(world.rebuilt()) == written
    world.settle()
    # The next batches have their lines.
    world.batch(1, NEW)
    assert world.lines() == [*written, (1, 1, 1, 0, 0)]
