"""Rejects leave their table by age (`keep_rejects`): which, when, and what tells of them then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql.pandas.types import to_arrow_schema

from tests.kit.killed import Killed, killed
from tests.kit.running import Place, clicks
from tidemark.errors import StorageUnavailable, TableMismatch
from tidemark.ledger.ledger import LedgerLine
from tidemark.ledger.lines import ingest_lines
from tidemark.ledger.rebuild import Ledgered, _ingest_lines
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.places import FIRST_GENERATION, INGEST
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.runs.contract.contract import contract_of, write_contract
from tidemark.sources.committed import check_new_checkpoint, commit_note, committed_before
from tidemark.sources.kinds import row_origin
from tidemark.sources.source import Reading
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.by_hand import commits_by_hand
from tidemark.storage.delta.commits import last_append
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.dropped_rejects import dropped_text, dropped_to
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.notes import RejectsDroppedNote, note_of
from tidemark.storage.delta.rows import Rows
from tidemark.streaming.run.append import append
from tidemark.streaming.schemas import rejects_schema
from tidemark.upkeep.maintenance.carry_out import compact_table, drop_rejects
from tidemark.upkeep.maintenance.maintain import maintain_pipeline, plan_maintenance
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Work

# The days before NOW on which each batch was read.
DAYS = (100, 95, 10, 1)
NOW = datetime.now(UTC)
BRONZE = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("_batch", pa.int64()), ("_event_date", pa.date32())]
)
QUERY = "11111111-2222-3333-4444-555555555555"


class Batches:
    """A pipeline whose ingest read a batch on each of DAYS: an accepted row, and `number + 1`
    rejects."""

    def __init__(self, root: Path, keep: str | None = "90 days", taken: str | None = "90 days"):
        self.place = Place(root, clicks(**_kept(keep)))
        self.rejects = self.place.warehouse.rejects
        self.checkpoint = self.place.run("run").ingest_checkpoint()
        self._write("metadata", json.dumps({"id": QUERY}))
        ran = Place(root, clicks(**_kept(taken)))
        where = self.place.places.contract(INGEST, FIRST_GENERATION)
        write_contract(where, contract_of(ran.pipeline, INGEST, ran.settings), {})
        origin = row_origin(self.place.pipeline)
        columns = to_arrow_schema(rejects_schema(origin), timezone="UTC")
        DeltaTable.create(self.rejects.uri, Schema.from_arrow(columns))
        self.columns = columns
        for number, days in enumerate(DAYS):
            self.batch(number, NOW - timedelta(days=days))

    def _write(self, name: str, text: str) -> None:
        file = Path(self.checkpoint.uri, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def batch(self, number: int, time: datetime, ends: bool = True) -> None:
        offsets = {"batchWatermarkMs": 0, "batchTimestampMs": epoch_ms(time), "conf": {}}
        self._write(f"offsets/{number}", f'v1\n{json.dumps(offsets)}\n{{"logOffset":{number}}}')
        self.append(number, time)
        if ends:
            self._write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')

    def append(self, number: int, time: datetime) -> None:
        """Rejects as a run appends them, and none a second time."""
        rows = [
            {
                "reason": "malformed", "raw": f"ä{number}-{one}", "raw_bytes": b"\xff",
                "repeats": {"event_time": time}, "_file": "a", "_place": one, "_batch": number,
                "_batch_time": time, "id": f"{number}-{one}",
            }
            for one in range(number + 1)
        ]  # fmt: skip
        counts = Rows(read=number + 1, rejected={"malformed": number + 1})
        note = commit_note(QUERY, number, counts, Reading((), (), {}), None, 0)
        table = pa.Table.from_pylist(rows, self.columns)
        append(table, self.rejects, QUERY, number, note)

    def maintain(self, now: datetime = NOW) -> MaintenancePlan:
        plans = maintain_pipeline(self.place.pipeline, self.place.settings, "m", now)
        return _of_rejects(plans)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.rejects.uri)

    @property
    def held(self) -> Mapping[int, int]:
        """How many rejects there are of each batch."""
        found = dataset_of(self.table).to_table(["_batch"])["_batch"].to_pylist()
        return {one: found.count(one) for one in sorted(set(found))}


def _kept(keep: str | None) -> dict[str, Any]:
    return {} if keep is None else {"keep_rejects": keep}


def _of_rejects(plans: tuple[MaintenancePlan, ...]) -> MaintenancePlan:
    (plan,) = (one for one in plans if one.name == "rejects")
    return plan


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Batches:
    # Bronze is not made here, and what rests on tables is looked at where a test asks for it.
    monkeypatch.setattr("tidemark.upkeep.maintenance.maintain.find_losses", lambda *_: ())
    found = Batches(tmp_path)
    DeltaTable.create(found.place.places.bronze, Schema.from_arrow(BRONZE))
    return found


def test_rejects_of_old_batches_go_and_their_commit_says_so(batches: Batches) -> None:
    planned = _of_rejects(plan_maintenance(batches.place.pipeline, batches.place.settings, NOW))
    assert planned.drop_rejects == 1
    (part,) = (one for one in planned.parts if one.work is Work.OLD_ROWS)
    assert (part.number, part.going) == (10, 3)
    assert len(batches.held) == 4
    batches.maintain()
    assert batches.held == {2: 3, 3: 4}
    (commit, *_) = (one for one in batches.table.history() if note_of(one))
    assert note_of(commit) == RejectsDroppedNote(up_to=1, rows=3)
    assert dropped_to(batches.table) == 1
    assert "up to 1 were dropped" in str(dropped_text(batches.table))
    # Texts can still be filtered, which those of delta-rs's DELETE cannot.
    known = dataset_of(batches.table)
    assert known.count_rows(filter=ds.field("raw") == "ä2-0") == 1
    version = batches.table.version()
    assert batches.maintain().drop_rejects is None
    assert batches.table.version() == version


def test_a_file_of_several_batches_is_written_again_with_what_stays(batches: Batches) -> None:
    compact_table(batches.table, "", ("",))
    assert len(batches.table.file_uris()) == 1
    before = _rows(batches)
    batches.maintain()
    assert _rows(batches) == [one for one in before if one["_batch"] > 1]


def _rows(batches: Batches) -> list[dict[str, Any]]:
    found = dataset_of(batches.table).to_table().to_pylist()
    return sorted(found, key=lambda one: one["id"])


@pytest.mark.parametrize(
    ("keep", "taken", "left"),
    [
        (None, "90 days", 4),
        ("90 days", None, 4),
        # A shorter one waits until a run has taken it, a longer one does not.
        ("5 days", "90 days", 2),
        ("98 days", "90 days", 3),
        ("1 hour", "1 hour", 0),
        ("1000000 days", "90 days", 4),
    ],
)
def test_the_longer_of_the_file_and_what_a_run_has_taken_counts(
    batches: Batches, tmp_path: Path, keep: str | None, taken: str | None, left: int
) -> None:
    other = Batches(tmp_path / "other", keep, taken)
    DeltaTable.create(other.place.places.bronze, Schema.from_arrow(BRONZE))
    other.maintain()
    assert len(other.held) == left


def test_a_batch_that_is_not_at_an_end_stays_and_is_not_appended_twice(batches: Batches) -> None:
    old = NOW - timedelta(days=91)
    batches.batch(4, old, ends=False)
    for _ in range(2):
        batches.maintain(NOW + timedelta(days=365))
        assert batches.held == {4: 5}
        batches.append(4, old)
    found = committed_before(batches.checkpoint, batches.place.warehouse.bronze, batches.rejects, 4)
    assert found is not None
    assert found.is_complete
    batches.batch(4, old)
    batches.maintain(NOW + timedelta(days=365))
    assert batches.held == {}
    # What is repeated now is still known.
    batches.append(4, old)
    assert batches.held == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_its_commit_a_repetition_finds_what_is_left(batches: Batches, when: Any) -> None:
    with pytest.raises(Killed), killed(when, "old rejects dropped"):
        batches.maintain()
    assert len(batches.held) == (4 if when == "before" else 2)
    batches.maintain()
    assert batches.held == {2: 3, 3: 4}
    notes = [note_of(one) for one in batches.table.history()]
    assert sum(isinstance(one, RejectsDroppedNote) for one in notes) == 1


def test_who_lost_the_lease_drops_nothing(batches: Batches) -> None:
    place = replace(batches.rejects, fence=lambda: fence_tables([batches.rejects], 2))
    with pytest.raises(StorageUnavailable, match="take the lease"):
        drop_rejects(place, 1)
    assert len(batches.held) == 4
    assert dropped_to(batches.table) == -1


def lines(batches: Batches) -> list[LedgerLine]:
    return list(_ingest_lines(Ledgered(batches.place.pipeline, batches.place.warehouse)))


def test_a_ledger_that_is_built_anew_counts_them_by_the_notes_of_their_batches(
    batches: Batches,
) -> None:
    bronze = batches.place.warehouse.bronze.existing()
    before, written = lines(batches), ingest_lines(bronze, batches.table, QUERY, -1)
    assert [line.rejected for line in before] == [1, 2, 3, 4]
    batches.maintain()
    assert lines(batches) == before
    assert ingest_lines(bronze, batches.table, QUERY, -1) == written
    # One that somebody removes of the others is missed as ever.
    batches.table.delete("id = '3-0'")
    assert [line.difference for line in lines(batches)] == [0, 0, 0, 1]


def test_where_the_log_has_no_notes_any_more_their_number_is_unknown_and_not_0(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.ledger.rebuild.ingest_commits", lambda *_: {})
    bronze = batches.place.warehouse.bronze.existing()
    accepted = {"at": [NOW], "_batch": [1], "_event_date": [NOW.date()]}
    append_rows(bronze, pa.Table.from_pydict(accepted, BRONZE), "rows")
    batches.maintain()
    found = {line.batch: (line.accepted, line.rejected, line.difference) for line in lines(batches)}
    assert found == {1: (1, None, None), 2: (0, 3, None), 3: (0, 4, None)}


def test_it_is_no_change_by_hand_and_no_append(batches: Batches) -> None:
    appended = last_append(batches.table, batches.table.version())
    batches.maintain()
    assert commits_by_hand(batches.table, batches.rejects, -1) == []
    assert last_append(batches.table, batches.table.version()) == appended


def test_an_empty_table_that_lost_all_of_its_rejects_is_no_new_one(batches: Batches) -> None:
    batches.maintain(NOW + timedelta(days=365))
    assert batches.table.file_uris() == []
    Path(batches.checkpoint.uri, "metadata").unlink()
    with pytest.raises(TableMismatch, match="or held some"):
        check_new_checkpoint(batches.checkpoint, batches.place.warehouse.bronze, batches.rejects)


def test_it_goes_with_no_source_whose_changes_are_followed() -> None:
    delta = {"table": "t", "changes": "follow", "key": "key"}
    columns = {"at": "timestamp", "key": "string not null", "amount": "long"}
    source = {"delta": delta, "columns": columns, "event_time": {"column": "at"}}
    assert pipeline_from_mapping("clicks", clicks(source=source)).keep_rejects is None
    with pytest.raises(PipelineFileInvalid, match="`keep_rejects` goes with no"):
        pipeline_from_mapping("clicks", clicks(source=source, keep_rejects="9 days"))
