"""Whether runs of a table over a zone's days go on where the rules of the zone are others than when
its windows were computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from typer.testing import CliRunner

from tests.kit.running import Place, clicks
from tests.kit.time_zones import clocks
from tidemark.cli.main import app
from tidemark.errors import PipelineChanged
from tidemark.recompute.table_change import change_of, changed_tables
from tidemark.runs.contract.check import Admitted, admit, record_contracts
from tidemark.runs.contract.contract import read_contract
from tidemark.runs.contract.zone_changes import why_zones_differ

TABLE, ALMATY = "per_month", "Asia/Almaty"
MOVED = datetime(2024, 2, 29, 18, tzinfo=UTC)
WINDOW = {"calendar": "month", "zone": ALMATY}
SAID = f"{TABLE}: the clocks of {ALMATY} at 2024-02-29T18:00:00Z: UTC+06:00 → UTC+05:00"


def content(window: Mapping[str, str] = WINDOW) -> dict[str, Any]:
    table = {"window": dict(window), "group_by": ["key"], "measures": {"events": "count(*)"}}
    return clicks(tables={TABLE: table})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A pipeline whose first run is over, by the rules that were known until then."""
    place = Place(tmp_path / "root", content())
    utc = pa.timestamp("us", "UTC")
    columns = {"window_start": utc, "window_end": utc, "local_date": pa.date32()}
    columns |= {"key": pa.string(), "events": pa.int64(), "rows": pa.int64()}
    DeltaTable.create(
        place.places.gold(TABLE),
        Schema.from_arrow(pa.schema(columns)),
        commit_properties=CommitProperties(app_transactions=[Transaction("generation", 1)]),
    )
    with before(place):
        started(place)
    for query in ("ingest", TABLE):
        folder = Path(place.places.contract(query, 1).removesuffix(".contract.json"))
        for log in ("offsets", "commits"):
            (folder / log).mkdir(parents=True)
            text = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"logOffset":-1}'
            (folder / log / "0").write_text(text if log == "offsets" else "v1\n{}")
    return place


def before(place: Place) -> Any:
    return clocks(place.root.with_name("before"), ALMATY, 6, {})


def since(place: Place, moved: datetime = MOVED) -> Any:
    return clocks(place.root.with_name("since"), ALMATY, 6, {moved: 5})


def read(place: Place, days: Sequence[date]) -> None:
    """Rows of these dates come to bronze."""
    rows = pa.table({"key": ["a"] * len(days), "_event_date": pa.array(days, pa.date32())})
    write_deltalake(place.places.bronze, rows, mode="append", partition_by=["_event_date"])


def started(place: Place) -> Admitted:
    admitted = admit(place.pipeline, place.settings)
    record_contracts(admitted, place.warehouse)
    return admitted


def noted(place: Place) -> dict[datetime, int] | None:
    contract = read_contract(place.places.contract(TABLE, 1), {})
    assert contract is not None
    return contract.zone_rules


def test_other_rules_of_a_zone_are_refused_where_rows_are_in_windows_that_they_move(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(place, [date(2024, 1, 9), date(2024, 2, 3)])
    of_before = noted(place)
    with since(place):
        with pytest.raises(PipelineChanged, match="needs a new generation") as refused:
            started(place)
        told = str(refused.value)
        assert f"{SAID}: needs a new generation. The table holds windows by" in told
        assert "Nothing was written" in told
        assert "`tidemark migrate clicks --dry-run`" in told
        assert "a run with the former ones goes on" in told
        assert noted(place) == of_before
        assert why_zones_differ(place.run("second")) == SAID
        assert changed_tables(place.pipeline, place.settings) == (TABLE,)
        change = change_of(place.pipeline, place.settings, TABLE)
        assert [one.what for one in change.differences] == [SAID.split(": ")[1]]
        # A row in the same window is the same row of gold.
        assert change.predecessors.identity == {"window_start": "window_start", "key": "key"}
        for name, value in place.variables.items():
            monkeypatch.setenv(name, value)
        ended = CliRunner().invoke(app, ["validate", str(place.write_file())])
        assert (ended.exit_code, SAID in ended.output) == (1, True)
    with before(place):
        assert started(place) == Admitted(place.pipeline)
        assert why_zones_differ(place.run("second")) is None


def test_other_rules_of_a_zone_are_noted_where_no_row_is_in_a_window_that_they_move(
    place: Place,
) -> None:
    read(place, [date(2024, 1, 9), date(2024, 1, 30)])
    with since(place):
        assert why_zones_differ(place.run("second")) is None
        assert started(place).messages == ()
        assert started(place) == Admitted(place.pipeline)
        read(place, [date(2024, 3, 9)])
        assert started(place) == Admitted(place.pipeline)
    with before(place), pytest.raises(PipelineChanged, match="UTC\\+05:00 → UTC\\+06:00"):
        started(place)


@pytest.mark.parametrize("first", [date(2024, 2, 3), date(1971, 1, 1)])
def test_rules_of_times_that_bronze_has_no_rows_of_may_become_others(
    place: Place, first: date
) -> None:
    read(place, [first, date(2024, 5, 5)])
    long_ago = datetime(1981, 3, 31, 18, tzinfo=UTC)
    with clocks(
        place.root.with_name("since"), ALMATY, 6, {long_ago: 7, long_ago + timedelta(days=183): 6}
    ):
        assert why_zones_differ(place.run("second")) is None
        started(place)
        assert datetime(1981, 3, 31, 18, tzinfo=UTC) in (noted(place) or {})


def test_a_bronze_without_rows_is_in_no_window(place: Place) -> None:
    with since(place):
        assert started(place).messages == ()


def test_a_contract_of_before_rules_were_noted_takes_those_of_today(place: Place) -> None:
    read(place, [date(2024, 2, 3), date(2024, 3, 9)])
    file = Path(place.places.contract(TABLE, 1))
    written = json.loads(file.read_text())
    del written["zone_rules"]
    file.write_text(json.dumps(written))
    assert noted(place) is None
    with since(place):
        assert why_zones_differ(place.run("second")) is None
        assert started(place).messages == ()
        assert (noted(place) or {})[MOVED] == 5 * 3600
        assert started(place) == Admitted(place.pipeline)
    with before(place), pytest.raises(PipelineChanged, match="the clocks of Asia/Almaty"):
        started(place)


def test_another_zone_is_told_as_such_and_not_by_its_rules(place: Place) -> None:
    read(place, [date(2024, 2, 3)])
    place.content = content({"calendar": "month", "zone": "Europe/Vienna"})
    with since(place), pytest.raises(PipelineChanged) as refused:
        started(place)
    assert "window.zone: Asia/Almaty → Europe/Vienna" in str(refused.value)
    assert "clocks of" not in str(refused.value)


def test_windows_of_one_length_note_no_rules(tmp_path: Path) -> None:
    place = Place(tmp_path)
    queries = admit(place.pipeline, place.settings).to_record
    assert [query.asked.zone_rules for query in queries] == [None, None]
