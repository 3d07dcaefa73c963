"""Bad input ends in a recorded reject or a clear error that names the file; good rows go on."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, clicks, query, run_warm, succeed
from tidemark.runs.results.result import RunResult
from tidemark.streaming.ingest import ingest, judged_lines, judged_slices
from tidemark.streaming.progress import BatchReport, Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD_NAMES = [
    "with space.json", "100%.json", "%20.json", "[1].json", "{a,b}.json", "a+b.json", "#1.json",
    "ä.json", "star*.json", "what?.json", "back\\slash.json", "comma,.json", "'quote'.json",
]  # fmt: skip
TEN_MEGABYTES = 10_000_000


def row(key: str, amount: int = 1, minute: int = 0) -> dict[str, Any]:
    return {"at": f"2026-07-01T10:{minute:02}:00Z", "key": key, "amount": amount}


def line(key: str) -> bytes:
    return json.dumps(row(key)).encode() + b"\n"


def with_text(body: str) -> str:
    return '{"at":"2026-07-01T10:00:00Z",' + body + "}"


@dataclass(frozen=True)
class FinishedRun:
    place: Place
    result: RunResult
    bronze: list[dict[str, Any]]
    rejects: list[dict[str, Any]]

    def keys(self, name: str) -> list[Any]:
        """Keys of the accepted rows of one file."""
        return sorted(row["key"] for row in self.bronze if _name(row) == name)

    def rejected(self, name: str) -> list[tuple[str, str]]:
        """Reason and detail of the rejects of one file, in a fixed order."""
        return sorted((r["reason"], r["detail"]) for r in self.rejects if _name(r) == name)


def _name(row: dict[str, Any]) -> str:
    return unquote(row["_file"]).rpartition("/")[2]


def _write(folder: Path) -> None:
    """Every kind of bad file in one folder, beside good ones."""
    noise = random.Random(20260701)
    compressed = gzip.compress(b"".join(line(f"gz{n}-{noise.random()}") for n in range(2_000)))
    files: dict[str, bytes] = {
        "good.json": b"".join(line(f"g{n}") for n in range(5)),
        "good.json.gz": gzip.compress(line("z1") + line("z2")),
        "empty.json": b"",
        "empty.json.gz": gzip.compress(b""),
        "blank.json": b"\n  \n" + line("after blank") + b"\n",
        "no newline.json": line("last").rstrip(b"\n"),
        "windows.json": b"\xef\xbb\xbf" + line("bom").replace(b"\n", b"\r\n") * 2,
        "return.json": line("cr").replace(b": 1}", b': 1, "x": "a\\rb"}'),
        "truncated.json.gz": compressed[: len(compressed) // 2],
        "headless.json.gz": compressed[:4],
        "no gzip.json.gz": line("plain text"),
        "damaged.json.gz": compressed[:-200] + b"\x00" * 192 + compressed[-8:],
        "cut.json": line("c1") + line("cut")[:30],
        "bytes.json": line("b1") + line("?").replace(b"?", b"\xff\xfe") + line("b2"),
        "utf16.json": line("wide").decode().encode("utf-16-le"),
        "types.json": "\n".join(
            [with_text('"amount":"1"'), with_text('"amount":1.5'), with_text('"key":5'),
             with_text('"amount":null,"key":"null is allowed"'), "[]", '{"at":1}']
        ).encode(),
        "keys.json": b'{"key":"no time"}\n{"at":null,"key":"null time"}\n{}\n',
        "times.json": "\n".join(
            json.dumps({"at": at, "key": "t"})
            for at in ("9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "2026-07-01T10:00:00")
        ).encode(),
        "long valid.json": line("x" * TEN_MEGABYTES) + line("after the long one"),
        "long garbage.json": b"y" * TEN_MEGABYTES + b"\n" + line("after the garbage"),
    }  # fmt: skip
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    for name in ODD_NAMES:
        (folder / name).write_bytes(line(f"in {name}") + b"nope\n")


@pytest.fixture(scope="module")
def ended(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One run over a folder of every kind of bad file."""
    place = Place(tmp_path_factory.mktemp("bad"))
    _write(place.root / "landing")
    result = succeed(spark, place)
    return FinishedRun(place, result, place.bronze().to_pylist(), place.rejects().to_pylist())


GOOD = {
    "good.json": ["g0", "g1", "g2", "g3", "g4"],
    "good.json.gz": ["z1", "z2"],
    "blank.json": ["after blank"],
    "no newline.json": ["last"],
    "windows.json": ["bom", "bom"],
    "return.json": ["cr"],
    "cut.json": ["c1"],
    "bytes.json": ["b1", "b2"],
    "types.json": ["null is allowed"],
    "long valid.json": ["after the long one", "x" * TEN_MEGABYTES],
    "long garbage.json": ["after the garbage"],
    **{name: [f"in {name}"] for name in ODD_NAMES},
}
NOT_JSON = ("malformed", "not exactly one JSON object")
UNREADABLE = ("unreadable file", "It cannot be read to its end")
REJECTED = {
    "empty.json": [("malformed", "The file is empty (0 bytes)")],
    "blank.json": [("malformed", "blank line")] * 3,
    "truncated.json.gz": [UNREADABLE],
    "headless.json.gz": [UNREADABLE],
    "no gzip.json.gz": [UNREADABLE],
    "damaged.json.gz": [UNREADABLE],
    "cut.json": [NOT_JSON],
    "bytes.json": [("malformed", "not valid UTF-8")],
    "utf16.json": [NOT_JSON, NOT_JSON],
    "types.json": [
        NOT_JSON,
        ("wrong type", 'amount should be long, found "1"'),
        ("wrong type", "amount should be long, found 1.5"),
        ("wrong type", "at should be timestamp, found 1"),
        ("wrong type", "key should be string, found 5"),
    ],
    "keys.json": [
        ("missing field", "at is missing"),
        ("missing field", "at is missing"),
        ("missing field", "at is null"),
    ],
    "times.json": [
        ("future", "at is 9999-12-31 23:59:59, more than 10 minutes after the batch's time"),
        ("wrong type", "at is before 1970-01-01"),
        ("wrong type", 'at should be timestamp, found "2026-07-01T10:00:00"'),
    ],
    "long garbage.json": [NOT_JSON],
    **{name: [NOT_JSON] for name in ODD_NAMES},
}


def test_exactly_the_good_rows_are_in_bronze_each_with_its_file(ended: FinishedRun) -> None:
    names = {_name(row) for row in ended.bronze}
    assert {name: ended.keys(name) for name in names} == GOOD


def test_everything_else_is_a_reject_with_its_reason_detail_and_file(ended: FinishedRun) -> None:
    found = {name: ended.rejected(name) for name in {_name(row) for row in ended.rejects}}
    assert {name: len(rejects) for name, rejects in found.items()} == {
        name: len(rejects) for name, rejects in REJECTED.items()
    }
    for name, rejects in REJECTED.items():
        for (reason, detail), (found_reason, found_detail) in zip(
            rejects, found[name], strict=True
        ):
            assert found_reason == reason, name
            assert found_detail.startswith(detail), name


def test_gold_has_the_good_rows_and_read_is_accepted_and_rejected(ended: FinishedRun) -> None:
    rows, good = ended.result.rows, sum(map(len, GOOD.values()))
    assert rows.accepted == len(ended.bronze) == good
    assert sum(rows.rejected.values()) == len(ended.rejects)
    assert rows.read == rows.accepted + len(ended.rejects)
    by_reason = "SELECT reason, count(*)::BIGINT FROM rejects GROUP BY ALL"
    assert rows.rejected == dict(query(by_reason, rejects=ended.place.rejects()))
    assert sum(ended.place.gold()["events"].to_pylist()) == good
    windows = set(ended.place.gold()["window_start"].to_pylist())
    assert windows == {datetime(2026, 7, 1, 10, tzinfo=UTC)}


def test_a_rejected_line_is_kept_as_it_was_and_its_bytes_where_it_is_no_text(
    ended: FinishedRun,
) -> None:
    raw = {_name(row): row for row in ended.rejects}
    invalid = raw["bytes.json"]
    assert invalid["raw_bytes"] == line("?").rstrip(b"\n").replace(b"?", b"\xff\xfe")
    assert "�" in invalid["raw"]
    assert raw["long garbage.json"]["raw"] == "y" * TEN_MEGABYTES
    assert raw["cut.json"]["raw"] == line("cut")[:30].decode()
    assert raw["truncated.json.gz"]["raw"] is None
    years = {r["event_time"].year for r in ended.rejects if r["event_time"] is not None}
    assert {1969, 9999} <= years


def test_a_rejected_future_row_leaves_the_watermark_alone(ended: FinishedRun) -> None:
    watermark = ended.result.tables["per_10m"].watermark_after_ms
    assert datetime.fromtimestamp(watermark / 1000, UTC) == datetime(2026, 7, 1, 9, 50, tzinfo=UTC)


def test_a_run_without_new_files_changes_nothing(spark: SparkSession, ended: FinishedRun) -> None:
    before = _versions(ended.place)
    again = succeed(spark, ended.place, "again")
    assert _versions(ended.place) == before
    assert (again.rows.read, again.batches.get("ingest", [])) == (0, [])


def _versions(place: Place) -> list[int]:
    tables = ("bronze", "rejects", "per_10m/changes", "per_10m/gold")
    return [DeltaTable(f"{place.root}/{place.name}/{table}").version() for table in tables]


class BeforeReading(Progress):
    """Does something once the engine has listed the files, before any is looked at."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__("clicks", out=io.StringIO())
        self._act = act

    @contextmanager
    def batch(self, query: str, number: int) -> Iterator[BatchReport]:
        if query == "ingest":
            self._act()
        with super().batch(query, number) as report:
            yield report


@pytest.mark.long
def test_files_that_vanish_between_listing_and_reading_are_one_reject_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    gone = place.land("gone.json", [row("gone")])
    place.land("stays.json", [row("stays")])
    result = run_warm(spark, place, "one", progress=BeforeReading(gone.unlink))
    assert (result.rows.accepted, result.rows.rejected) == (1, {"unreadable file": 1})
    assert place.bronze()["key"].to_pylist() == ["stays"]
    [reject] = place.rejects().to_pylist()
    assert reject["_file"].endswith("/gone.json")
    assert reject["detail"].startswith("It was gone between listing and reading")

    last = place.land("last.json", [row("last")])
    result = run_warm(spark, place, "all", progress=BeforeReading(last.unlink))
    assert (result.rows.accepted, result.rows.rejected) == (0, {"unreadable file": 1})
    assert place.rejects().num_rows == 2


def test_a_file_that_vanishes_while_it_is_read_is_a_reject(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    gone = place.land("gone.json", [row("gone")])
    place.land("stays.json", [row("stays")])
    original = ingest.judge_batch

    def judged(*arguments: Any, **named: Any) -> Any:
        gone.unlink()
        return original(*arguments, **named)

    monkeypatch.setattr(ingest, "judge_batch", judged)
    result = succeed(spark, place)
    assert (result.rows.accepted, result.rows.rejected) == (1, {"unreadable file": 1})
    assert place.bronze()["key"].to_pylist() == ["stays"]
    [reject] = place.rejects().to_pylist()
    assert reject["detail"].startswith("It was gone between listing and reading")


@pytest.mark.parametrize("times", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_row_that_judging_loses_or_doubles_is_found_before_anything_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    original = judged_slices.Judge.judge

    def wrong(self: Any, lines: Any) -> Any:
        judged = original(self, lines)
        places = [n for n in range(3) for _ in range(times if n == 1 else 1)]
        at = judged.accepted_at.take(places)
        return replace(judged, accepted=judged.accepted.take(places), accepted_at=at)

    place = Place(tmp_path)
    place.land("a.json", [row("first"), row("second"), row("third")])
    with monkeypatch.context() as patch:
        patch.setattr(judged_slices.Judge, "judge", wrong)
        error = run_warm(spark, place, "wrong").error
    assert error is not None
    assert error.type == "LedgerUnbalanced"
    assert f"3 lines were read, {2 + times} of them accepted" in error.message
    assert (place.bronze().num_rows, place.rejects().num_rows) == (0, 0)
    assert succeed(spark, place, "right").rows.accepted == 3


@pytest.mark.long
def test_a_file_that_grows_while_it_is_read_is_an_error_and_the_next_run_reads_it_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    path = place.land("grows.json", [row("first")])
    place.land("stays.json", [row("stays")])
    original = judged_lines.judge_slices

    def after_growing(*arguments: Any) -> Any:
        with path.open("ab") as file:
            file.write(line("second"))
        os.utime(path, (path.stat().st_mtime + 10,) * 2)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(judged_lines, "judge_slices", after_growing)
        error = run_warm(spark, place, "first").error
    assert error is not None
    assert error.type == "SourceChanging"
    assert error.retry_can_help
    assert "1 files changed while they were read" in error.message
    assert path.as_uri() in error.message
    assert (place.bronze().num_rows, place.rejects().num_rows) == (0, 0)
    assert succeed(spark, place, "second").rows.read == 3
    assert sorted(place.bronze()["key"].to_pylist()) == ["first", "second", "stays"]


def test_a_folder_that_does_not_exist_is_an_error_that_names_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    error = run_warm(spark, Place(tmp_path)).error
    assert error is not None
    assert error.type == "SourceNotFound"
    assert str(tmp_path / "landing") in error.message
    assert error.retry_can_help
    # The run's row is in `ops`.
    assert {path.name for path in (tmp_path / "clicks").iterdir()} == {"lease", "ops"}


@pytest.mark.long
def test_a_file_much_older_than_those_already_read_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = clicks()["source"] | {"files": "landing/**/*.json*"}
    place = Place(tmp_path, clicks(source=source))
    place.land("new.json", [row("new")])
    succeed(spark, place, "first")
    old = place.land("old.json", [row("old")], folder="landing/2016/deep")
    os.utime(old, (1_450_000_000, 1_450_000_000))
    succeed(spark, place, "second")
    assert sorted(place.bronze()["key"].to_pylist()) == ["new", "old"]


@pytest.mark.long
def test_a_name_with_a_colon_is_an_error_that_names_it_or_is_read_where_folders_are_searched(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.land("2026-07-01T10:00:00.json", [row("colon")])
    place.land("good.json", [row("good")])
    error = run_warm(spark, place).error
    assert error is not None
    assert str(tmp_path / "landing") in error.message
    assert "the file 2026-07-01T10:00:00.json has a colon in its name" in error.message
    source = clicks()["source"] | {"files": "landing/**/*.json*"}
    succeed(spark, Place(tmp_path, clicks(source=source)))
    assert sorted(place.bronze()["key"].to_pylist()) == ["colon", "good"]
    assert not place.rejects().num_rows
