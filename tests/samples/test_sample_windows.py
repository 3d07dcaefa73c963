"""The expected windows of the worked examples, worked out by hand, against plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

SAMPLES = Path(__file__).parents[2] / "include" / "samples"
LENGTH, SLIDE, DELAY = (timedelta(minutes=minutes) for minutes in (10, 5, 10))
STARTS = [datetime.fromisoformat("2026-03-01T00:00Z") + n * SLIDE for n in range(24 * 12)]

Row = dict[str, Any]
Windows = list[Row]


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


class Stream:
    """Windows and watermark by the rules of the engine, with nothing but a list of assignments.

    Late assignments count as well: they are what repair computes closed windows again for.
    """

    def __init__(self, key: str, measures: Callable[[list[Row]], Row]) -> None:
        self.key, self.measures = key, measures
        self.counted: list[tuple[datetime, Row]] = []
        self.corrected: set[tuple[datetime, Any]] = set()
        self.newest: datetime | None = None

    def watermark(self) -> datetime | None:
        return None if self.newest is None else self.newest - DELAY

    def trigger(self, rows: list[Row]) -> int:
        """Takes a trigger's rows; the number of assignments that are late."""
        times = [datetime.fromisoformat(row["timestamp"]) for row in rows]
        into = [
            (start, row)
            for row, time in zip(rows, times, strict=True)
            for start in STARTS
            if start <= time < start + LENGTH
        ]
        assert len(into) == 2 * len(rows)
        mark = self.watermark()
        late = [(start, row) for start, row in into if mark and start + LENGTH <= mark]
        known = {(start, row[self.key]) for start, row in self.counted}
        self.corrected |= known & {(start, row[self.key]) for start, row in late}
        self.counted += into
        self.newest = max([*times, self.newest] if self.newest else times)
        return len(late)

    def windows(self) -> Windows:
        mark = self.watermark()
        assert mark is not None
        found: Windows = []
        for start, key in sorted({(start, row[self.key]) for start, row in self.counted}):
            own = [row for at, row in self.counted if at == start and row[self.key] == key]
            closed = "corrected" if (start, key) in self.corrected else "final"
            status = closed if start + LENGTH <= mark else "provisional"
            found.append(
                {
                    "window_start": text(start),
                    "window_end": text(start + LENGTH),
                    self.key: key,
                    **self.measures(own),
                    "status": status,
                }
            )
        return found


def impressions(rows: list[Row]) -> Row:
    return {"impressions": len(rows), "mobile": sum("Mobile" in row["agent"] for row in rows)}


def occurrences(rows: list[Row]) -> Row:
    return {"occurrences": len(rows)}


EXAMPLES = [
    ("ad_impressions", "worked_example", "spotId", impressions),
    ("ad_impressions", "newest_1213", "spotId", impressions),
    ("words", "words", "word", occurrences),
]


def expected(folder: str, sequence: str) -> list[Row]:
    stated = json.loads((SAMPLES / folder / "expected.json").read_text())
    triggers: list[Row] = stated["sequences"][sequence]
    return triggers


def after(folder: str, sequence: str, file: str) -> Row:
    return next(trigger for trigger in expected(folder, sequence) if trigger["file"] == file)


def of(trigger: Row, start: str) -> list[Row]:
    return [row for row in trigger["windows"] if row["window_start"] == f"2026-03-01T{start}:00Z"]


@pytest.mark.parametrize(("folder", "sequence", "key", "measures"), EXAMPLES)
def test_the_windows_worked_out_by_hand_are_those_of_the_rules(
    folder: str, sequence: str, key: str, measures: Callable[[list[Row]], Row]
) -> None:
    stream = Stream(key, measures)
    for stated in expected(folder, sequence):
        late = stream.trigger(read(SAMPLES / folder / stated["file"]))
        mark = stream.watermark()
        assert mark is not None
        assert (stated["file"], stated["watermark"]) == (stated["file"], text(mark))
        assert stated["late_assignments"] == late
        assert stated["windows"] == stream.windows()


@pytest.mark.parametrize("folder", ["ad_impressions", "words"])
def test_every_trigger_file_is_in_one_sequence(folder: str) -> None:
    sequences = json.loads((SAMPLES / folder / "expected.json").read_text())["sequences"]
    named = Counter(trigger["file"] for each in sequences.values() for trigger in each)
    there = (SAMPLES / folder).rglob("trigger-*.json")
    assert named == Counter(str(path.relative_to(SAMPLES / folder)) for path in there)


def test_a_row_of_12_03_that_comes_after_12_12_counts_in_both_its_windows() -> None:
    before = after("ad_impressions", "worked_example", "trigger-3.json")
    later = after("ad_impressions", "worked_example", "further/trigger-4.json")
    for start in ("11:55", "12:00"):
        counts = [
            next(row["impressions"] for row in of(at, start) if row["spotId"] == 222)
            for at in (before, later)
        ]
        assert counts == [1, 2]


def test_a_newest_event_of_12_13_makes_the_watermark_12_03() -> None:
    trigger = after("ad_impressions", "newest_1213", "newest_1213/trigger-2.json")
    assert trigger["watermark"] == "2026-03-01T12:03:00Z"


def test_a_newest_event_of_12_21_closes_the_window_from_12_00_to_12_10() -> None:
    trigger = after("ad_impressions", "worked_example", "further/trigger-5.json")
    assert trigger["watermark"] == "2026-03-01T12:11:00Z"
    assert {row["status"] for row in of(trigger, "12:00")} == {"final"}
    assert {row["status"] for row in of(trigger, "12:05")} == {"provisional"}


def test_12_20_dog_owl_makes_the_watermark_12_10_and_closes_12_00_with_cat_2() -> None:
    trigger = after("words", "words", "trigger-4.json")
    closed = {(row["word"], row["occurrences"], row["status"]) for row in of(trigger, "12:00")}
    assert trigger["watermark"] == "2026-03-01T12:10:00Z"
    assert closed == {("cat", 2, "final"), ("dog", 4, "final"), ("owl", 1, "final")}


def test_every_impression_has_an_id_of_its_own() -> None:
    rows = [
        row for path in (SAMPLES / "ad_impressions").rglob("trigger-*.json") for row in read(path)
    ]
    assert len({row["impressionId"] for row in rows}) == len(rows) == 16
    assert all(list(row) == ["timestamp", "spotId", "impressionId", "agent"] for row in rows)


def test_the_words_pipeline_reads_the_word_files_and_not_what_is_expected_of_them() -> None:
    pipeline = YAML(typ="safe").load(SAMPLES / "words" / "words.yaml")
    source = pipeline["source"]
    names = [path.name for path in (SAMPLES / "words").iterdir()]
    read_by_it = [name for name in names if fnmatch(f"landing/words/{name}", source["files"])]
    assert sorted(read_by_it) == [f"trigger-{n}.json" for n in range(1, 6)]
    assert list(source["columns"]) == list(read(SAMPLES / "words" / "trigger-1.json")[0])
