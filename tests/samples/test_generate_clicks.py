"""Clicks beside generated impressions: of which rows, when, and in which file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from samples.impressions import Clicks, generate
from tests.samples.test_generate_impressions import SPEC as OF_IMPRESSIONS

SPEC = replace(OF_IMPRESSIONS, rows=3_000, files=4)
CLICKS = Clicks(share=0.3, late=0.2)
Json = dict[str, Any]


def rows_of(path: Path) -> list[Json]:
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def when(row: Json) -> datetime:
    return datetime.fromisoformat(row["timestamp"])


def made(folder: Path) -> tuple[Json, list[list[Json]], list[list[Json]]]:
    """The manifest; impressions and clicks by file."""
    shown, clicked = folder / "shown", folder / "clicked"
    manifest = generate(SPEC, shown, folder / "manifest.json", CLICKS, clicked)
    files = [sorted(one.iterdir()) for one in (shown, clicked)]
    return manifest, *([rows_of(path) for path in some] for some in files)  # type: ignore[return-value]


def test_a_click_follows_an_accepted_impression_which_has_no_other(tmp_path: Path) -> None:
    manifest, shown, clicked = made(tmp_path)
    times: dict[str, datetime] = {}
    for row in (row for file in shown for row in file if len(row) == 4):
        # Of the wrong types none is clicked.
        if isinstance(row["spotId"], int) and row["timestamp"].endswith("Z"):
            times.setdefault(row["impressionId"], when(row))
    clicks = [row for file in clicked for row in file]
    assert manifest["clicks"]["rows"] == len(clicks) > 700
    assert len({row["impressionId"] for row in clicks}) == len(clicks)
    for row in clicks:
        waited = when(row) - times[row["impressionId"]]
        assert timedelta(seconds=1) <= waited <= timedelta(minutes=10)
        assert 0 <= row["cost"] < 1


def test_late_clicks_stand_in_the_file_after_that_of_their_impression(tmp_path: Path) -> None:
    manifest, shown, clicked = made(tmp_path)
    file_of: dict[str, int] = {}
    for number, file in enumerate(shown):
        for row in file:
            file_of.setdefault(str(row.get("impressionId")), number)
    behind = [
        number - file_of[row["impressionId"]] for number, file in enumerate(clicked) for row in file
    ]
    assert set(behind) == {0, 1}
    assert sum(behind) == manifest["clicks"]["late"] > 50


def test_clicks_change_no_impression_and_come_out_the_same_again(tmp_path: Path) -> None:
    _, shown, clicked = made(tmp_path / "one")
    again, alone = made(tmp_path / "two"), tmp_path / "three"
    assert (shown, clicked) == again[1:]
    generate(SPEC, alone / "shown", alone / "manifest.json")
    assert [rows_of(path) for path in sorted((alone / "shown").iterdir())] == shown


def test_a_manifest_among_the_clicks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="would be read as input"):
        generate(SPEC, tmp_path / "shown", tmp_path / "clicked" / "m.json", CLICKS,
                 tmp_path / "clicked")  # fmt: skip
