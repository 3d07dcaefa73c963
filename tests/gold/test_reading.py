"""`tidemark.read`: gold as Arrow, by ranges of windows, without Spark."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidemark
from tests.kit.running import Place, clicks
from tests.kit.windows import at, window
from tidemark.errors import GoldNotFound

START, VALUES = "window_start", [1, 2, 3, 4]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Windows of three dates in gold, the last of them open, and one that is not published."""
    views = {"best": {"top": {"n": 1, "by": "rows"}}}
    table = {"window": {"length": "10 minutes"}, "group_by": ["key"], "views": views}
    place = Place(tmp_path_factory.mktemp("reading"), clicks(tables={"per_10m": table}))
    place.write_file()
    windows = place.windows()
    starts = (at(10), at(23, 50), at(0, day=2), at(9, day=3))
    windows.change(
        *(window(start, key="a", total=n) for start, n in zip(starts, VALUES, strict=True))
    )
    windows.publish_at(at(12, day=2))
    windows.change(window(at(10, day=3), key="a", total=99))
    return place


def totals(place: Place, **asked: Any) -> list[int]:
    rows = tidemark.read("clicks", "per_10m", settings=place.settings, **asked)
    assert isinstance(rows, pa.Table)
    return sorted(rows.column("total").to_pylist())


def test_all_that_was_published_is_read(place: Place) -> None:
    assert totals(place) == VALUES


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"start": at(23, 50)}, [2, 3, 4]),
        ({"start": "2026-07-01T23:50:00.000001Z"}, [3, 4]),
        ({"end": at(0, day=2)}, [1, 2]),
        ({"end": "2026-07-02T02:00:00.000001+02:00"}, [1, 2, 3]),
        ({"start": at(23, 50), "end": at(0, day=2)}, [2]),
        ({"start": at(10), "end": at(10)}, []),
        ({"start": at(0, day=9)}, []),
    ],
)
def test_a_range_has_its_first_window_and_not_its_last(
    place: Place, asked: dict[str, Any], expected: list[int]
) -> None:
    assert totals(place, **asked) == expected


def test_open_windows_can_be_left_out(place: Place) -> None:
    assert totals(place, final_only=True) == [1, 2, 3]
    assert totals(place, final_only=True, start=at(0, day=2)) == [3]


def test_the_columns_are_those_that_were_asked_for(place: Place) -> None:
    rows = tidemark.read(
        "clicks", "per_10m", columns=["total", START], end=at(11), settings=place.settings
    )
    assert rows.to_pylist() == [{"total": 1, START: at(10)}]
    assert rows.schema.field(START).type == pa.timestamp("us", "UTC")


def test_a_column_that_gold_does_not_have_is_told_with_the_nearest_one(place: Place) -> None:
    with pytest.raises(ValueError, match=r"no column `totals`\. Did you mean `total`\?"):
        totals(place, columns=["totals"])


def test_files_of_other_dates_are_not_opened(place: Place) -> None:
    found = tidemark.dataset("clicks", "per_10m", start=at(9, day=3), settings=place.settings)
    assert [file.split("/")[0] for file in found.files] == ["window_date=2026-07-03"]  # type: ignore[attr-defined]  # of a dataset of files


def test_a_dataset_keeps_its_range_in_duckdb(place: Place) -> None:
    gold = tidemark.dataset(
        "clicks", "per_10m", start=at(11), end=at(9, day=3), settings=place.settings
    )
    with duckdb.connect() as connection:
        connection.register("gold", gold)
        assert connection.sql("SELECT sum(total) FROM gold").fetchall() == [(5,)]
        assert connection.sql("SELECT sum(total) FROM gold WHERE total > 2").fetchall() == [(3,)]


def test_the_settings_are_found_as_the_command_finds_them(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"root: {place.root}\n")
    assert tidemark.read("clicks", "per_10m", settings=str(file)).num_rows == 4
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(file))
    assert tidemark.read("clicks", "per_10m").num_rows == 4


def test_a_time_needs_a_zone(place: Place) -> None:
    for naive in ("2026-07-01T00:00", datetime(2026, 7, 1)):
        with pytest.raises(ValueError, match="has no zone"):
            totals(place, start=naive)


def test_a_date_is_its_midnight_in_utc(place: Place) -> None:
    expected = totals(place, start="2026-07-01T00:00:00Z", end="2026-07-02T00:00:00Z")
    assert totals(place, start="2026-07-01", end=date(2026, 7, 2)) == expected


@pytest.mark.parametrize(
    ("pipeline", "table", "told"),
    [
        ("clicks", "per_10", "Did you mean `per_10m`? The tables of clicks: per_10m."),
        ("click", "per_10m", "There is no pipeline `click` in"),
        ("clicks", "per_10.bes", "Did you mean `per_10m.best`? The views of clicks: per_10m.best."),
        ("clicks", "per_10m.best", "No run of clicks has made it yet: `tidemark run clicks`"),
    ],
)
def test_a_name_that_is_not_known_is_told_with_the_nearest_one(
    place: Place, pipeline: str, table: str, told: str
) -> None:
    with pytest.raises(GoldNotFound) as raised:
        tidemark.read(pipeline, table, settings=place.settings)
    assert told in str(raised.value)


def test_a_pipeline_that_has_not_run_has_no_gold_yet(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    with pytest.raises(GoldNotFound, match="clicks has not run yet: `tidemark run clicks`"):
        tidemark.read("clicks", "per_10m", settings=place.settings)


def test_a_name_that_leads_out_of_the_root_is_refused(place: Place) -> None:
    with pytest.raises(ValueError, match="cannot name a pipeline"):
        tidemark.read("../clicks", "per_10m", settings=place.settings)
    with pytest.raises(ValueError, match="cannot name a view"):
        tidemark.read("clicks", "per_10m.", settings=place.settings)


def test_importing_tidemark_brings_no_arrow() -> None:
    heavy = "{'pyarrow', 'deltalake', 'pydantic'}"
    told = f"import sys, tidemark; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_name_that_tidemark_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'raed'"):
        _ = tidemark.raed
