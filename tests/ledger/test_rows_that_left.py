"""What the ledger tells of batches whose rows were changed, or have left the tables, since, and
whose commits may be out of the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.running import Place, clicks
from tests.kit.windows import at, millis
from tidemark.gold.retention import _drop
from tidemark.ledger.erased import Erased, record_place
from tidemark.ledger.ledger import (
    LedgerLine,
    check_ledger,
    replace_ledger,
    settle_ledger,
    write_ledger,
)
from tidemark.ledger.lines import ingest_lines
from tidemark.ledger.rebuild import Ledgered, _ingest_lines
from tidemark.ledger.report import read_ledger
from tidemark.recompute.plans import write_plan
from tidemark.recompute.rewind.change import IngestBack, PipelineChange, TableBack
from tidemark.recompute.rewind.record import kept_to
from tidemark.runs.unfinished_act import rewind_folder
from tidemark.storage.delta.by_hand import commits_by_hand
from tidemark.storage.delta.notes import (
    AcceptedNote,
    ErasedNote,
    IngestNote,
    RewoundNote,
    as_metadata,
)
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.storage.files import write_bytes
from tidemark.upkeep.accept_changes import _accept
from tidemark.upkeep.maintenance.carry_out import drop_rejects, keep_rows

QUERY = "11111111-2222-3333-4444-555555555555"
OLD, NEW = date(2026, 6, 1), date(2026, 7, 1)
BRONZE = pa.schema([("key", pa.string()), ("_batch", pa.int64()), ("_event_date", pa.date32())])
REJECTS = pa.schema([("key", pa.string()), ("_batch", pa.int64()), ("reason", pa.string())])
NUMBERS = ("batch", "read", "accepted", "rejected", "difference")
Numbers = tuple[int | None, ...]


@dataclass
class Ingested:
    """A pipeline with batches of ingest, and the ledger's lines of these."""

    root: Path
    keep: str | None = None

    def __post_init__(self) -> None:
        self.place = Place(self.root, clicks(**({"keep": self.keep} if self.keep else {})))
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

    def settle(self, kept_to: int = 99, rewind: str = "R1") -> None:
        """The ledger as a rewind leaves it that undid no batch up to `kept_to`."""
        ledger, name = self.warehouse.ledger, self.place.name
        settle_ledger(ledger, name, self.rebuilt(), rewind, QUERY, kept_to, at(13))

    def shown(self) -> tuple[str, str]:
        """The verdict and the total that people read."""
        report = read_ledger(self.warehouse.ledger, self.place.name, 9)
        assert report is not None
        return report.verdict, str(report.totals[0][-1])

    def cut_logs(self) -> None:
        """Their newest versions stay, as after `log_retention`."""
        for place in (self.bronze, self.rejects):
            table = place.existing()
            table.create_checkpoint()
            for entry in Path(place.uri, "_delta_log").glob("*.json"):
                if int(entry.stem) < table.version():
                    entry.unlink()

    def go_back(self, bronze: int, rejects: int, batch: int) -> None:
        """As a rewind takes the tables back, and the checkpoint."""
        for place, version in ((self.bronze, bronze), (self.rejects, rejects)):
            note = as_metadata(RewoundNote(id="R1", to_version=version))
            noted = CommitProperties(custom_metadata=note)
            DeltaTable(place.uri).restore(version, commit_properties=noted)
        for log in ("offsets", "commits"):
            for file in (self.folder / log).iterdir():
                if int(file.name) > batch:
                    file.unlink()

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


def aged(root: Path, keep: str | None = "90 days", cut: bool = True) -> Ingested:
    """`keep` has dropped rows of batches 0 and 1, `keep_rejects` those up to batch 2; batch 3 read
    nothing; 4 is whole, and 5 is told by the log."""
    world = Ingested(root, keep)
    world.batch(0, OLD, NEW, rejected=1)
    world.batch(1, OLD, OLD)
    world.batch(2, rejected=2)
    world.batch(3)
    world.batch(4, NEW)
    if keep:
        _drop(world.bronze, (OLD,), ())
    drop_rejects(world.rejects, 2)
    if cut:
        world.cut_logs()
    world.batch(5, NEW, rejected=1)
    return world


WRITTEN = [(0, 3, 2, 1, 0), (1, 2, 2, 0, 0), (2, 2, 0, 2, 0), (4, 1, 1, 0, 0), (5, 2, 1, 1, 0)]


@pytest.mark.parametrize("keep", [None, "90 days"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_rewind_leaves_the_lines_of_batches_whose_rows_were_dropped(
    tmp_path: Path, keep: str | None, cut: bool
) -> None:
    world = aged(tmp_path, keep, cut)
    for _ in range(2):
        world.settle()
        assert (world.lines(), world.lines(counting=False)) == (WRITTEN, [])
    assert world.shown()[1] == "10 read = 6 accepted + 4 rejected"
    # Those that it has undone are not left.
    world.go_back(world.bronze.existing().version() - 1, world.rejects.existing().version() - 1, 4)
    world.settle(4)
    assert (world.lines(), world.lines(counting=False)) == (WRITTEN[:4], WRITTEN[4:])
    world.batch(5, NEW)
    assert world.lines() == [*WRITTEN[:4], (5, 1, 1, 0, 0)]


def test_lines_that_maintenance_removed_are_missing_behind_a_rewind_and_it_is_said(
    tmp_path: Path,
) -> None:
    world = aged(tmp_path)
    keep_rows(world.warehouse.ledger.existing(), world.place.name, ds.field("batch") > 1)
    world.settle()
    assert world.lines() == WRITTEN[2:]
    assert "The totals are partial: maintenance removed 2 older lines" in world.shown()[0]


def test_a_ledger_that_was_lost_is_told_by_a_rewind_as_by_a_rebuild(tmp_path: Path) -> None:
    world = aged(tmp_path)
    world.warehouse.ledger.existing().delete()
    world.settle()
    assert world.lines() == numbers(world.rebuilt())


def test_where_dates_were_dropped_a_batch_without_a_note_has_a_line_without_numbers(
    tmp_path: Path,
) -> None:
    assert numbers(aged(tmp_path / "whole", cut=False).rebuilt()) == WRITTEN
    world, unknown = aged(tmp_path / "cut"), (None, None, None, None)
    rebuilt = world.rebuilt()
    assert numbers(rebuilt) == [
        *((batch, *unknown) for batch in range(3)),
        # Of rejects it is known that there were none.
        *((batch, None, None, 0, None) for batch in (3, 4)),
        WRITTEN[-1],
    ]
    replace_ledger(world.warehouse.ledger, world.place.name, rebuilt, at(13))
    assert world.shown()[1] == "? read = ? accepted + ? rejected"
    rows = world.place.table(world.place.places.ledger).to_pylist()
    reasons = {row["batch"]: row["reasons"] for row in rows}
    assert reasons == {**dict.fromkeys(range(3)), 3: "{}", 4: "{}", 5: '{"future": 1}'}


def test_where_rejects_alone_were_dropped_what_was_accepted_is_told(tmp_path: Path) -> None:
    assert numbers(aged(tmp_path, keep=None).rebuilt()) == [
        *((batch, None, rows, None, None) for batch, rows in enumerate((2, 2, 0))),
        # The commit of its accepted row is the newest that the log was cut to.
        *WRITTEN[3:],
    ]


def accepted_by_hand(world: Ingested) -> None:
    world.accept(removed_of_bronze(world))


def erased(world: Ingested) -> None:
    note = as_metadata(ErasedNote(id="20260702T100000Z", rows=1))
    noted = CommitProperties(custom_metadata=note)
    DeltaTable(world.bronze.uri).delete("key = '0-0'", commit_properties=noted)
    record = Erased(id="20260702T100000Z", at=at(12), by="me", reason="asked", rows={"bronze": 1})
    place = record_place(world.warehouse, record.id)
    write_bytes(place, record.model_dump_json().encode(), world.warehouse.options)


@pytest.mark.parametrize("change", [accepted_by_hand, erased])
def test_where_rows_may_have_left_otherwise_a_batch_without_a_note_tells_no_number_of_them(
    world: Ingested, change: Callable[[Ingested], None]
) -> None:
    world.batch(0, NEW, NEW)
    change(world)
    world.batch(1, NEW)
    # As it is told by the log.
    assert numbers(world.rebuilt()) == [(0, 2, 2, 0, 0), (1, 1, 1, 0, 0)]
    world.cut_logs()
    (line, told) = numbers(world.rebuilt())
    assert (line[:3], told) == ((0, None, None), (1, 1, 1, 0, 0))
    world.settle()
    assert world.lines() == [(0, 2, 2, 0, 0), told]


def test_the_line_of_another_life_of_a_batch_does_not_count_for_one_that_nobody_tells_of(
    tmp_path: Path,
) -> None:
    """As where an undo brings batch 4 back as it was before a rewind to batch 1."""
    world = aged(tmp_path)
    for _ in range(2):
        world.settle(kept_to=1, rewind="R2")
        assert world.lines() == [
            *WRITTEN[:2],
            (2, None, None, None, None),
            *((batch, None, None, 0, None) for batch in (3, 4)),
            WRITTEN[-1],
        ]
        assert world.lines(counting=False) == WRITTEN[2:4]


def rewind(number: int, batch: int, undoes: int | None = None) -> PipelineChange:
    """To a batch; it may undo another one."""
    stamps = [f"20260702T1{one}0000Z" for one in range(9)]
    back = TableBack(uri="", seen=0, version=0)
    return PipelineChange(
        id=stamps[number],
        run_id="",
        pipeline="clicks",
        planned_at=at(12),
        to="",
        ingest=IngestBack(
            query=QUERY,
            listed={},
            batch=batch,
            restored_from=None if undoes is None else stamps[undoes],
        ),
        bronze=back,
        rejects=back,
        golds=(),
    )


def test_an_undo_keeps_no_line_behind_what_any_rewind_since_has_undone(world: Ingested) -> None:
    warehouse = world.warehouse
    acts = [rewind(0, 2), rewind(1, 7), rewind(2, 5), rewind(3, 9, undoes=1)]
    for act in acts:
        write_plan(rewind_folder(warehouse, act.id), act)
    # A backup that was cut off has changed nothing.
    Path(rewind_folder(warehouse, rewind(4, 0).id).uri).mkdir()
    undo_of_it = rewind(5, 8, undoes=3)
    write_plan(rewind_folder(warehouse, undo_of_it.id), undo_of_it)
    assert [kept_to(act, warehouse) for act in (*acts, undo_of_it)] == [2, 7, 5, 5, 5]
