"""Whether runs go on where dates of bronze went (`keep`) while a table was out of the file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.running import Place, clicks
from tidemark.errors import TableLost
from tidemark.gold.plan import noted_of
from tidemark.gold.published import publish_note
from tidemark.gold.retention import drop_expired_dates
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.contract.contract import contract_of, write_contract
from tidemark.runs.found import found_of
from tidemark.runs.losses import check_losses
from tidemark.runs.publish_held import publish_run
from tidemark.runs.run import Outcome
from tidemark.storage.delta.notes import PublishedNote, RetentionNote, RetractedNote, as_metadata

MEASURED = {"group_by": ["key"], "measures": {"events": "count(*)"}}
STAYS = {"per_10m": {"window": {"length": "10 minutes"}, **MEASURED}}
WEEKS: Mapping[str, Any] = {"window": {"calendar": "week", "zone": "UTC"}, **MEASURED}
SESSIONS: Mapping[str, Any] = {"window": {"session": "30 hours"}, **MEASURED}
# Monday 6 July to Saturday 18 July 2026; by then `keep` has passed 9 July, 12:30.
DAYS = [datetime(2026, 7, day, 12, tzinfo=UTC) for day in range(6, 19)]
NEWEST = datetime(2026, 7, 18, 12, 30, tzinfo=UTC)
TUESDAY, NEXT_WEEK = datetime(2026, 7, 7, 12, tzinfo=UTC), datetime(2026, 7, 13, tzinfo=UTC)
EXPIRED = (date(2026, 7, 6), date(2026, 7, 7), date(2026, 7, 8))


def published(root: Path, table: Mapping[str, Any], close: datetime) -> Place:
    """A pipeline whose table `other` closed its windows up to then with its last publish."""
    place = Place(root, clicks(keep="9 days", tables={**STAYS, "other": table}))
    rows = {"at": DAYS, "key": ["a"] * len(DAYS), "_event_date": [one.date() for one in DAYS]}
    at = pa.array(DAYS, pa.timestamp("us", "UTC"))
    bronze = pa.table({**rows, "at": at})
    write_deltalake(place.places.bronze, bronze, partition_by=["_event_date"])
    write_deltalake(place.places.rejects, pa.table({"raw": ["x"]}))
    ingest = Path(place.places.ingest_checkpoint)
    planned = f'{{"batchWatermarkMs":0,"batchTimestampMs":{epoch_ms(NEWEST)},"conf":{{}}}}'
    for name, text in (
        ("metadata", '{"id":"ingest"}'),
        ("offsets/0", f'v1\n{planned}\n{{"logOffset":-1}}'),
        ("commits/0", "v1\n{}"),
    ):
        (ingest / name).parent.mkdir(parents=True, exist_ok=True)
        (ingest / name).write_text(text)
    for name, closed in (("per_10m", NEWEST - timedelta(minutes=10)), ("other", close)):
        query = Path(place.places.query_checkpoint(name, 1))
        query.mkdir(parents=True)
        (query / "metadata").write_text(f'{{"id":"{name}"}}')
        write_deltalake(place.places.changes(name, 1), pa.table({"key": ["a"]}))
        rests_on = noted_of(found_of(place.pipeline, place.warehouse, name).rests_on(), {})
        said = {"changes": 0, "bronze": 0, "close": epoch_ms(closed), "generation": 1}
        noted = [Transaction(*one) for one in ({**said, "identities": 1} | rests_on).items()]
        note = as_metadata(PublishedNote(run="run", started_at=NEWEST))
        properties = CommitProperties(app_transactions=noted, custom_metadata=note)
        gold = pa.table({"key": ["a"]})
        write_deltalake(place.places.gold(name), gold, commit_properties=properties)
    check_losses(place.pipeline, place.warehouse)
    return place


def without_other(place: Place) -> Place:
    return Place(place.root, clicks(keep="9 days", tables=STAYS))


@pytest.mark.parametrize("table", [WEEKS, SESSIONS], ids=["weeks", "sessions"])
@pytest.mark.parametrize("rebuilt", [None, "other"], ids=["a run", "a rebuild"])
def test_a_table_is_stopped_whose_open_windows_lost_dates_while_it_was_out_of_the_file(
    tmp_path: Path, table: Mapping[str, Any], rebuilt: str | None
) -> None:
    place = published(tmp_path, table, TUESDAY)
    out = without_other(place)
    assert drop_expired_dates(out.pipeline, out.warehouse) == EXPIRED
    check_losses(out.pipeline, out.warehouse)
    with pytest.raises(TableLost) as stopped:
        check_losses(place.pipeline, place.warehouse, rebuilt=rebuilt)
    said = str(stopped.value)
    assert "while other was out of the pipeline's file" in said
    assert "2026-07-06, 2026-07-07, 2026-07-08." in said
    assert "Take other out of the file again" in said
    assert "Nothing was written" in said


@pytest.mark.parametrize("rebuilt", [None, "other"], ids=["a run", "a rebuild"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "since"])
def test_rows_that_were_retracted_meanwhile_do_not_hide_dates_that_went(
    tmp_path: Path, rebuilt: str | None, before: bool
) -> None:
    place = published(tmp_path, WEEKS, TUESDAY)
    out = without_other(place)

    def retract() -> None:
        note = as_metadata(RetractedNote(id="20260719T000000Z", rows=1))
        properties = CommitProperties(custom_metadata=note)
        # A row that no window waits for.
        gone = f"_event_date = '{DAYS[-1].date()}'"
        DeltaTable(place.places.bronze).delete(gone, commit_properties=properties)

    if before:
        retract()
    drop_expired_dates(out.pipeline, out.warehouse)
    if not before:
        retract()
    with pytest.raises(TableLost, match="while other was out of the pipeline's file"):
        check_losses(place.pipeline, place.warehouse, rebuilt=rebuilt)


def test_another_window_asks_for_no_dates_that_the_former_one_did_not_need(
    tmp_path: Path,
) -> None:
    place = published(tmp_path, STAYS["per_10m"], NEWEST - timedelta(minutes=10))
    contract = contract_of(place.pipeline, "other", place.settings)
    write_contract(place.places.contract("other", 1), contract, {})
    properties = CommitProperties(custom_metadata=as_metadata(RetentionNote(dates=EXPIRED)))
    expired = ", ".join(f"'{day}'" for day in EXPIRED)
    bronze = DeltaTable(place.places.bronze)
    bronze.delete(f"_event_date IN ({expired})", commit_properties=properties)
    asked = Place(place.root, clicks(keep="9 days", tables={**STAYS, "other": SESSIONS}))
    for rebuilt in (None, "other"):
        check_losses(asked.pipeline, asked.warehouse, rebuilt=rebuilt)


def test_a_table_goes_on_whose_windows_of_the_dropped_dates_were_closed_before(
    tmp_path: Path,
) -> None:
    place = published(tmp_path, WEEKS, NEXT_WEEK)
    out = without_other(place)
    assert drop_expired_dates(out.pipeline, out.warehouse) == EXPIRED
    check_losses(place.pipeline, place.warehouse)


def test_a_table_that_stayed_in_the_file_never_loses_a_date_that_it_needs(tmp_path: Path) -> None:
    place = published(tmp_path / "open", WEEKS, TUESDAY)
    assert drop_expired_dates(place.pipeline, place.warehouse) == ()
    place = published(tmp_path / "closed", WEEKS, NEXT_WEEK)
    assert drop_expired_dates(place.pipeline, place.warehouse) == EXPIRED
    check_losses(place.pipeline, place.warehouse)


@pytest.mark.parametrize(("close", "gone"), [(TUESDAY, ()), (NEXT_WEEK, EXPIRED)])
def test_the_publish_of_a_held_run_drops_dates_by_the_file_that_the_run_had(
    tmp_path: Path, close: datetime, gone: tuple[date, ...]
) -> None:
    place = published(tmp_path, WEEKS, close)
    for query in ("ingest", "per_10m", "other"):
        contract = contract_of(place.pipeline, query, place.settings)
        write_contract(place.places.contract(query, 1), contract, {})
    held = set(DeltaTable(place.places.bronze).to_pyarrow_table()["_event_date"].to_pylist())
    place.content = clicks(keep="9 days", tables={**STAYS, "other": STAYS["per_10m"]})
    note = publish_note("run", NEWEST)
    publish_run(place.pipeline, Outcome(), note, place.warehouse)
    left = DeltaTable(place.places.bronze).to_pyarrow_table()["_event_date"].to_pylist()
    assert set(left) == held - set(gone)


@pytest.mark.parametrize("close", [TUESDAY, NEXT_WEEK])
def test_where_a_former_version_did_not_note_which_tables_it_asked_the_dates_tell(
    tmp_path: Path, close: datetime
) -> None:
    place = published(tmp_path, WEEKS, close)
    properties = CommitProperties(custom_metadata=as_metadata(RetentionNote(dates=EXPIRED)))
    expired = ", ".join(f"'{day}'" for day in EXPIRED)
    bronze = DeltaTable(place.places.bronze)
    bronze.delete(f"_event_date IN ({expired})", commit_properties=properties)
    if close == NEXT_WEEK:
        check_losses(place.pipeline, place.warehouse)
        return
    with pytest.raises(TableLost, match="while other was out of the pipeline's file"):
        check_losses(place.pipeline, place.warehouse)


@pytest.mark.parametrize("moved", [True, False], ids=["moved away", "another name"])
def test_both_ways_out_let_the_table_begin_anew(tmp_path: Path, moved: bool) -> None:
    place = published(tmp_path / "root", WEEKS, TUESDAY)
    out = without_other(place)
    drop_expired_dates(out.pipeline, out.warehouse)
    if moved:
        Path(place.places.gold("other")).parent.rename(tmp_path / "table")
        Path(place.places.query_checkpoint("other", 1)).parent.rename(tmp_path / "query")
    else:
        place.content = clicks(keep="9 days", tables={**STAYS, "again": WEEKS})
    check_losses(place.pipeline, place.warehouse)
