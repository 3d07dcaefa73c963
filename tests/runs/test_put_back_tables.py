"""Tables beside which rows changed: they were out of the pipeline's file while acts changed bronze,
nothing of them was published yet, or their gold is gone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.running import Place, clicks
from tests.operators.contract.joins import OTHER, PartnerPlace, join_table, joins, partner_pipeline
from tests.operators.contract.kinds import TABLE, Kind, KindPlace, of
from tests.operators.contract.test_joins import a_place
from tidemark.errors import AcceptanceRefused, RetractionRefused, TableLost
from tidemark.gold.other_readers import OtherReader, note_reader
from tidemark.gold.pins import Dependency
from tidemark.gold.plan import noted_of
from tidemark.gold.state import gold_state
from tidemark.operators.kinds import operator_of
from tidemark.recompute.table_change import change_of
from tidemark.runs.contract.contract import contract_of, write_contract
from tidemark.runs.found import found_of
from tidemark.runs.losses import Loss, _against_gold, check_losses, find_losses
from tidemark.runs.run import TableRun
from tidemark.runs.unfinished_act import ActKind, PipelineAct, stop_for, unfinished_act
from tidemark.storage.delta.notes import (
    AcceptedNote,
    EmittedNote,
    ErasedNote,
    IngestNote,
    Note,
    PublishedNote,
    RetentionNote,
    RetractedNote,
    RewoundNote,
    WidenedNote,
    as_metadata,
)
from tidemark.storage.delta.rows import Rows
from tidemark.storage.warehouse import Warehouse
from tidemark.streaming.recompute.migration import Migration, _pins
from tidemark.upkeep.accept_changes import (
    _accept,
    _accept_of_other,
    accept_changes,
    changed_by_hand,
)

ACT = "20260701T000000Z"
ROWS = pa.table({"key": ["x", "y"], "n": [1, 2]})


def put(uri: str, note: Note, mode: str = "append", **transactions: int) -> DeltaTable:
    properties = CommitProperties(
        app_transactions=[Transaction(name, at) for name, at in transactions.items()],
        custom_metadata=as_metadata(note),
    )
    rows = ROWS if mode == "append" else ROWS.slice(0, 1)
    write_deltalake(uri, rows, mode=mode, commit_properties=properties)  # type: ignore[call-overload]
    return DeltaTable(uri)


OURS = AcceptedNote(up_to=0, reason="ours", by="us")


def told(place: Place) -> list[str]:
    table = found_of(place.pipeline, place.warehouse, "per_10m")
    return [str(loss) for loss in _against_gold(table, table.bronze)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Gold stands for version 0 of bronze."""
    place = Place(tmp_path, clicks())
    bronze = str(put(place.places.bronze, OURS).metadata().id)
    noted = {"identities": 1, f"bronze/{bronze}": 0, "bronze": 0, "changes": 0, "close": 0}
    put(place.places.gold("per_10m"), OURS, **noted)
    return place


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (RetractedNote(id=ACT, rows=1), "1 rows of .* were retracted, or brought back"),
        (RewoundNote(id=ACT, to_version=0), "was taken back to what it was at version 0"),
        (ErasedNote(id=ACT, rows=1), "1 rows of .* were erased .the erasure 20260701T000000Z."),
    ],
)
def test_rows_that_went_meanwhile_are_a_loss(place: Place, note: Note, said: str) -> None:
    assert told(place) == []
    put(place.places.bronze, note, "overwrite")
    (loss,) = told(place)
    assert re.search(said, loss)
    assert "tidemark migrate clicks --rebuild per_10m" in loss


@pytest.mark.parametrize(
    ("note", "kind"),
    [
        (RetractedNote(id=ACT, rows=1), ActKind.FOLLOWING),
        (ErasedNote(id=ACT, rows=1), ActKind.ERASURE),
    ],
)
def test_an_act_that_is_not_finished_is_none_yet(place: Place, note: Note, kind: ActKind) -> None:
    put(place.places.bronze, note, "overwrite")
    stop_for(place.warehouse, PipelineAct(kind, ACT))
    assert told(place) == []


def test_an_erasure_that_took_no_row_of_bronze_is_none_whatever_came_since(place: Place) -> None:
    put(place.places.bronze, ErasedNote(id=ACT, rows=0))
    assert told(place) == []
    put(place.places.bronze, ErasedNote(id=ACT, rows=1), "overwrite")
    put(place.places.bronze, ErasedNote(id="20260702T000000Z", rows=0))
    assert len(told(place)) == 1


def test_rejects_that_were_erased_are_nothing_to_gold(held: Place) -> None:
    publish(held)
    put(held.places.rejects, ErasedNote(id=ACT, rows=1), "overwrite")
    assert losses(held) == []


def test_a_table_that_was_restored_from_before_an_erasure_is_stopped(
    held: Place, tmp_path: Path
) -> None:
    publish(held)
    of_table = [held.places.gold("per_10m"), held.places.changes("per_10m", 1)]
    backup = [shutil.copytree(uri, tmp_path / f"backup-{n}") for n, uri in enumerate(of_table)]
    put(held.places.bronze, ErasedNote(id=ACT, rows=1), "overwrite")
    cut_log(held.places.bronze, 1)
    publish(held)
    assert losses(held) == []
    for uri, copy in zip(of_table, backup, strict=True):
        shutil.rmtree(uri)
        shutil.copytree(copy, uri)
    (loss,) = losses(held)
    assert loss.place == held.places.bronze
    assert "tidemark migrate clicks --rebuild per_10m" in loss.way_out
    check_losses(held.pipeline, held.warehouse, rebuilt="per_10m")


@pytest.fixture
def joined(tmp_path: Path) -> KindPlace:
    """Gold stands for version 0 of another pipeline's bronze."""
    table = join_table("left", before=1)
    place = KindPlace(tmp_path, kind=Kind("joins", table, joins(table)))
    bronze = str(put(of_other(place).places.bronze, OURS).metadata().id)
    other = f"bronze/{OTHER}"
    noted = {
        "identities": 1,
        f"{other}/{bronze}": 0,
        other: 0,
        "changes": 0,
        "bronze": 0,
        "close": 0,
    }
    put(place.places.gold(TABLE), OURS, **noted)
    return place


def of_other(place: KindPlace) -> Warehouse:
    return Warehouse.of(partner_pipeline().name, place.settings)


def told_of_other(place: KindPlace) -> list[str]:
    table = found_of(place.pipeline, place.warehouse, TABLE)
    return [str(loss) for other in table.others for loss in _against_gold(table, other)]


def cut_log(uri: str, first: int) -> None:
    """Leave the entries from a version on, and the newest one's checkpoint."""
    table = DeltaTable(uri)
    table.create_checkpoint()
    for version in range(first):
        Path(uri, "_delta_log", f"{version:020}.json").unlink()


def test_rows_that_were_erased_of_another_bronze_meanwhile_are_a_loss(joined: KindPlace) -> None:
    bronze = of_other(joined).places.bronze
    assert told_of_other(joined) == []
    put(bronze, ErasedNote(id=ACT, rows=1), "overwrite")
    (loss,) = told_of_other(joined)
    assert "1 rows of" in loss
    assert "were erased" in loss
    assert f"tidemark migrate {joined.name} --rebuild {TABLE}" in loss
    # What an erasure leaves of a log, once others have written to the table.
    put(bronze, OURS)
    cut_log(bronze, 2)
    (loss,) = told_of_other(joined)
    assert "was cut, so that nobody can tell whether rows of it were erased" in loss


@pytest.mark.parametrize(("day", "is_needed"), [(16, False), (17, True), (18, True)])
def test_dates_of_another_bronze_that_went_since_are_a_loss_where_open_windows_need_them(
    joined: KindPlace, day: int, is_needed: bool
) -> None:
    """Restored alone, a table that joins is behind what it has told the other pipeline to need."""
    closed = int(datetime(2026, 7, 18, tzinfo=UTC).timestamp() * 1000)
    put(joined.places.gold(TABLE), OURS, close=closed)
    bronze = of_other(joined).places.bronze
    # A table of the same name is another one over there.
    put(bronze, RetentionNote(dates=(date(2026, 7, day),), tables=(TABLE,)))
    found = told_of_other(joined)
    assert len(found) == is_needed
    for loss in found:
        assert f"Dates of {bronze} were dropped" in loss
        assert f"since gold of {TABLE} was published from it" in loss
        assert f"2026-07-{day}" in loss
        assert f"Restore all of the folder of {OTHER}" in loss


def test_of_another_bronze_of_which_nothing_was_read_nothing_is_lost(joined: KindPlace) -> None:
    bronze = of_other(joined).places.bronze
    noted = {f"bronze/{OTHER}/{DeltaTable(bronze).metadata().id}": -1, f"bronze/{OTHER}": -1}
    put(joined.places.gold(TABLE), OURS, **noted)
    put(bronze, OURS)
    cut_log(bronze, 1)
    assert told_of_other(joined) == []
    # It begins with what that bronze still holds.
    put(bronze, RetentionNote(dates=(date(2026, 7, 18),)))
    assert told_of_other(joined) == []


def test_a_log_of_another_bronze_that_tells_all_since_is_none(joined: KindPlace) -> None:
    """Maintenance leaves what comes behind the version that gold of a reader stands for."""
    bronze = of_other(joined).places.bronze
    put(bronze, OURS)
    put(bronze, OURS)
    cut_log(bronze, 1)
    assert told_of_other(joined) == []


@pytest.mark.parametrize("job", ["erase", "retract"])
def test_a_table_that_begins_to_read_bronze_while_an_act_is_planned_keeps_it_from_beginning(
    place: Place, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.streaming.jobs import erase, retract

    module: Any = {"erase": erase, "retract": retract}[job]
    reader = OtherReader(pipeline="orders", table="t")
    monkeypatch.setattr(module, "_plan", lambda *_: note_reader(place.warehouse, reader))
    monkeypatch.setattr(module, "_planned", lambda *_: None, raising=False)
    monkeypatch.setattr(module, "hold_to_checks", lambda *_: None)
    asked = SimpleNamespace(finishes=False, reason="why")
    act: Any = SimpleNamespace(run=place.run("act"), asked=asked)
    with pytest.raises(RetractionRefused, match="If t of orders is no more, remove "):
        module._begun(act, None, SimpleNamespace(change=None))
    assert unfinished_act(place.warehouse) is None


INGESTED = IngestNote(query="ingest", batch=0, rows=Rows(read=2, accepted=2))
EMITTED = EmittedNote(query="q", batch=0)
TAKEN_OUT = [
    RetractedNote(id=ACT, rows=1),
    RewoundNote(id=ACT, to_version=0),
    ErasedNote(id=ACT, rows=1),
]


def read_to(
    place: Place, version: int, generation: int = 1, table: str = "per_10m", query: str = "q"
) -> None:
    """The table's query has read bronze up to before this version, in one batch."""
    offset = offset_of(place.places.bronze, version)
    one_batch(place.places.query_checkpoint(table, generation), query, offset)


def offset_of(uri: str, version: int) -> str:
    return (
        f'{{"sourceVersion":1,"reservoirId":"{DeltaTable(uri).metadata().id}",'
        f'"reservoirVersion":{version},"index":-1,"isStartingVersion":false}}'
    )


def one_batch(checkpoint: str, query: str, offset: str, batch: int = 0) -> None:
    planned = '{"batchWatermarkMs":0,"batchTimestampMs":1782900000000,"conf":{}}'
    for name, text in (
        ("metadata", f'{{"id":"{query}"}}'),
        (f"offsets/{batch}", f"v1\n{planned}\n{offset}"),
        (f"commits/{batch}", "v1\n{}"),
    ):
        (Path(checkpoint) / name).parent.mkdir(parents=True, exist_ok=True)
        (Path(checkpoint) / name).write_text(text)


@pytest.fixture
def held(tmp_path: Path) -> Place:
    """The first run was held: its query has read bronze, and gold is empty."""
    place = Place(tmp_path / "ä 100%", clicks())
    put(place.places.bronze, INGESTED)
    put(place.places.rejects, INGESTED)
    put(place.places.changes("per_10m", 1), EMITTED, q=0)
    make_gold(place)
    one_batch(place.places.ingest_checkpoint, "ingest", '{"logOffset":-1}')
    read_to(place, 1)
    for query in ("ingest", "per_10m"):
        contract = contract_of(place.pipeline, query, place.settings)
        write_contract(place.places.contract(query, 1), contract, {})
    assert losses(place) == []
    return place


def make_gold(place: Place, table: str = "per_10m") -> None:
    made = CommitProperties(app_transactions=[Transaction("generation", 1)])
    write_deltalake(place.places.gold(table), ROWS.slice(0, 0), commit_properties=made)


def publish(place: Place, table: str = "per_10m", **at: int) -> None:
    rests_on = noted_of(found_of(place.pipeline, place.warehouse, table).rests_on(), {})
    said = {"changes": 0, "bronze": 0, "close": 0, "generation": 1, "identities": 1} | rests_on | at
    put(place.places.gold(table), PublishedNote(run="r", started_at=datetime.now(UTC)), **said)


def losses(place: Place) -> list[Loss]:
    return list(find_losses(place.pipeline, place.warehouse))


def delete(uri: str) -> None:
    DeltaTable(uri).delete("n = 2")


def add(uri: str) -> None:
    write_deltalake(uri, ROWS, mode="append")


@pytest.mark.parametrize("change", [delete, add])
@pytest.mark.parametrize("name", ["bronze", "rejects", "changes"])
def test_a_change_by_hand_before_the_first_publish_is_a_loss(
    held: Place, name: str, change: Callable[[str], None]
) -> None:
    places = held.places
    uri = places.changes("per_10m", 1) if name == "changes" else str(getattr(places, name))
    change(uri)
    (loss,) = losses(held)
    assert loss.place == uri
    assert [commit.version for commit in loss.by_hand] == [1]
    assert "per_10m has no published gold: version 1" in loss.what
    assert ("migrate clicks --rebuild per_10m" in loss.way_out) is (name != "rejects")


def test_gold_that_got_rows_before_the_first_publish_is_a_loss(held: Place) -> None:
    add(held.places.gold("per_10m"))
    (loss,) = losses(held)
    assert "only publishes write to it" in loss.what


def test_what_was_accepted_before_the_first_publish_can_be_computed_anew(held: Place) -> None:
    delete(held.places.bronze)
    accept_changes(held.pipeline, held.settings, "accept", "a wrong row", "us")
    assert losses(held) == []
    check_losses(held.pipeline, held.warehouse, rebuilt="per_10m")
    assert change_of(held.pipeline, held.settings, "per_10m", rebuild=True).differences == ()


@pytest.mark.parametrize("is_gone", [True, False], ids=["gold gone", "never published"])
def test_rows_that_came_by_hand_are_not_accepted_where_no_gold_tells_what_is_closed(
    held: Place, is_gone: bool
) -> None:
    add(held.places.bronze)
    if is_gone:
        shutil.rmtree(held.places.gold("per_10m"))
    with pytest.raises(AcceptanceRefused, match=r"windows that are open.*--rebuild TABLE"):
        changed_by_hand(held.pipeline, held.settings)


@pytest.mark.parametrize("name", ["bronze", "changes"])
def test_gold_that_is_moved_away_takes_no_other_loss_with_it(held: Place, name: str) -> None:
    publish(held)
    assert losses(held) == []
    uri = held.places.bronze if name == "bronze" else held.places.changes("per_10m", 1)
    delete(uri)
    delete(held.places.gold("per_10m"))
    assert len(losses(held)) == 2
    shutil.rmtree(held.places.gold("per_10m"))
    (loss,) = losses(held)
    assert loss.place == uri
    assert loss.by_hand
    make_gold(held)
    (loss,) = losses(held)
    assert loss.place == uri


@pytest.mark.parametrize("note", TAKEN_OUT, ids=lambda note: note.kind)
def test_rows_that_went_are_a_loss_to_a_table_that_was_never_published(
    held: Place, note: Note
) -> None:
    put(held.places.bronze, note, "overwrite")
    (loss,) = losses(held)
    assert "since the query of per_10m has begun to read it" in loss.what
    assert "tidemark migrate clicks --rebuild per_10m" in loss.way_out
    check_losses(held.pipeline, held.warehouse, rebuilt="per_10m")


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("note", [None, *TAKEN_OUT], ids=lambda note: note and note.kind)
def test_what_a_query_did_not_read_yet_is_nothing_to_it(
    held: Place, note: Note | None, has_begun: bool
) -> None:
    if note is None:
        delete(held.places.bronze)
    else:
        put(held.places.bronze, note, "overwrite")
    if has_begun:
        read_to(held, 2)
    else:
        shutil.rmtree(held.places.query_checkpoint("per_10m", 1))
    assert losses(held) == []


def test_gold_can_be_moved_away_behind_what_was_accepted_and_packed(held: Place) -> None:
    publish(held)
    delete(held.places.bronze)
    accept_changes(held.pipeline, held.settings, "accept", "a wrong row", "us")
    DeltaTable(held.places.bronze).optimize.compact()
    shutil.rmtree(held.places.gold("per_10m"))
    assert losses(held) == []


@pytest.fixture
def out(held: Place) -> Place:
    """The pipeline without `per_10m`, which is published as its other table is."""
    publish(held)
    table = clicks()["tables"]["per_10m"]
    held.content = clicks(tables={"per_10m": table, "other": table})
    put(held.places.changes("other", 1), EMITTED, other=0)
    make_gold(held, "other")
    read_to(held, 1, table="other", query="other")
    write_contract(
        held.places.contract("other", 1), contract_of(held.pipeline, "other", held.settings), {}
    )
    publish(held, "other")
    assert losses(held) == []
    return Place(held.root, clicks(tables={"other": table}))


@pytest.mark.parametrize("is_out", [True, False])
def test_what_was_accepted_while_a_table_was_out_of_the_file_is_not_accepted_for_it(
    held: Place, out: Place, is_out: bool
) -> None:
    delete(held.places.bronze)
    asked = out if is_out else held
    accept_changes(asked.pipeline, asked.settings, "accept", "a wrong row", "us")
    assert losses(asked) == []
    found = losses(held)
    assert len(found) == is_out
    for loss in found:
        assert loss.place == held.places.bronze
        assert "gold of per_10m was published from it: version 1 (DELETE" in loss.what
        accept_changes(held.pipeline, held.settings, "accept", "a wrong row", "us")
        assert losses(held) == []


def test_of_changes_by_hand_each_is_asked_about_that_one_table_has_not_accepted(
    held: Place, out: Place
) -> None:
    delete(held.places.bronze)
    accept_changes(out.pipeline, out.settings, "accept", "a wrong row", "us")
    DeltaTable(held.places.bronze).delete("n = 1")
    for tables in (("per_10m", "other"), ("other", "per_10m")):
        held.content = clicks(tables={name: clicks()["tables"]["per_10m"] for name in tables})
        (loss,) = losses(held)
        assert [commit.version for commit in loss.by_hand] == [1, 3]


def test_an_acceptance_of_a_former_version_holds_for_all_tables(held: Place, out: Place) -> None:
    delete(held.places.bronze)
    _accept(held.warehouse.bronze, AcceptedNote(up_to=1, reason="known", by="us"))
    assert losses(held) == losses(out) == []


def vacuumed(uri: str) -> None:
    table = DeltaTable(uri)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


@pytest.mark.parametrize(
    ("maintain", "said"),
    [(lambda uri: cut_log(uri, 1), "has no version 0"), (vacuumed, r"the file .*parquet is gone")],
    ids=["log cut", "files packed"],
)
@pytest.mark.parametrize("name", ["bronze", "changes"])
@pytest.mark.parametrize("left", ["nothing", "empty gold"])
def test_gold_that_is_gone_is_a_loss_where_maintenance_took_what_builds_it(
    held: Place, name: str, maintain: Callable[[str], None], said: str, left: str
) -> None:
    uri = held.places.bronze if name == "bronze" else held.places.changes("per_10m", 1)
    for _ in range(2):
        put(held.places.bronze, INGESTED)
        put(held.places.changes("per_10m", 1), EMITTED)
    publish(held, changes=2, bronze=2)
    maintain(uri)
    assert losses(held) == []
    gold = held.places.gold("per_10m")
    shutil.rmtree(gold)
    if left == "empty gold":
        make_gold(held)
    (loss,) = losses(held)
    assert loss.place == gold
    assert re.search(said, loss.what)
    assert uri in loss.what
    assert "tidemark migrate clicks --rebuild per_10m" in loss.way_out
    check_losses(held.pipeline, held.warehouse, rebuilt="per_10m")


def test_gold_of_a_backup_that_is_older_than_what_is_left_of_changes_is_a_loss(
    held: Place, tmp_path: Path
) -> None:
    publish(held)
    gold, changes = held.places.gold("per_10m"), held.places.changes("per_10m", 1)
    shutil.copytree(gold, tmp_path / "backup")
    for _ in range(2):
        put(changes, EMITTED)
    publish(held, changes=2)
    cut_log(changes, 2)
    assert losses(held) == []
    shutil.rmtree(gold)
    shutil.copytree(tmp_path / "backup", gold)
    (loss,) = losses(held)
    assert f"{gold} stands for version 0 of {changes}" in loss.what
    assert f"move {gold} away" in loss.way_out
    shutil.rmtree(gold)
    check_losses(held.pipeline, held.warehouse, rebuilt="per_10m")


def test_who_is_to_move_gold_away_is_told_what_makes_it_again(held: Place) -> None:
    publish(held)
    delete(held.places.gold("per_10m"))
    (loss,) = losses(held)
    assert "and keep it: the next run builds it again" in loss.way_out
    put(held.places.changes("per_10m", 1), EMITTED)
    cut_log(held.places.changes("per_10m", 1), 1)
    (loss,) = losses(held)
    assert "and keep it: `tidemark migrate clicks --rebuild per_10m`" in loss.way_out


def test_histories_of_before_there_were_notes_are_built_again_from(held: Place) -> None:
    """Builds of then repaired late rows in commits without a note."""
    changes = held.places.changes("per_10m", 1)
    add(changes)
    put(changes, EMITTED)
    shutil.rmtree(held.places.gold("per_10m"))
    assert losses(held) == []


def test_of_a_generation_that_is_not_in_use_nothing_is_asked(held: Place) -> None:
    delete(held.places.bronze)
    read_to(held, 2, generation=2)
    shutil.rmtree(held.places.gold("per_10m"))
    (loss,) = losses(held)
    assert loss.place == held.places.gold("per_10m")


def test_rejects_are_not_asked_for_a_table_that_is_new_beside_a_published_one(held: Place) -> None:
    delete(held.places.rejects)
    publish(held)
    tables = clicks()["tables"]
    both = Place(held.root, clicks(tables={**tables, "new": tables["per_10m"]}))
    assert losses(both) == []


def test_a_migration_notes_no_bronze_that_changed_by_hand_since_it_was_computed(
    held: Place,
) -> None:
    table = TableRun(
        held.run("migrate"), "per_10m", gold_state(held.warehouse.gold("per_10m").existing())
    )
    plan = Mock(spec=Migration, table=table, bronze=0, others={}, computed=ROWS, inputs={})
    plan.name, plan.operator = "per_10m", operator_of(held.pipeline, "per_10m")
    changes = Dependency(id="changes", at=0)
    put(held.places.bronze, WidenedNote(columns=("n",)))
    assert _pins(plan, 2, changes, "q2").rests_on["bronze"].at == 1
    delete(held.places.bronze)
    with pytest.raises(TableLost, match=r"while per_10m was computed: version 2 .DELETE"):
        _pins(plan, 2, changes, "q2")


def test_so_is_a_change_of_the_bronze_that_a_join_reads_before_its_first_publish(
    tmp_path: Path,
) -> None:
    place = a_place(tmp_path)
    partner = PartnerPlace(place.root, name=OTHER)
    partner.make()
    partner.append([of(2), of(4)])
    put(place.places.bronze, INGESTED)
    put(place.places.changes(TABLE, 1), EMITTED, q=0)
    make_gold(place, TABLE)
    read = [(place, 1), (partner, partner.warehouse.bronze.existing().version() + 1)]
    offsets = "\n".join(offset_of(one.places.bronze, version) for one, version in read)
    one_batch(place.places.query_checkpoint(TABLE, 1), "q", offsets)

    def of_other() -> list[Loss]:
        return [loss for loss in losses(place) if loss.name == f"bronze/{OTHER}"]

    assert of_other() == []
    DeltaTable(partner.places.bronze).delete()
    (loss,) = of_other()
    assert loss.by_hand
    assert f"tidemark migrate clicks --rebuild {TABLE}" in loss.way_out
    note = AcceptedNote(up_to=loss.by_hand[-1].version, reason="wrong prices", by="them")
    _accept(partner.warehouse.bronze, note)
    assert len(of_other()) == 1
    _accept_of_other(place.pipeline, place.warehouse, loss, note)
    assert of_other() == []
    shutil.rmtree(place.places.gold(TABLE))
    assert of_other() == []
