"""A batch of ingest that failed is repeated by the next run: nothing twice, nothing lost.

Here the failure is raised within the batch, which the engine treats as it does a death of the
process: `offsets/N` is written and `commits/N` is not.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from tests.kit.killed import killed
from tests.kit.running import SCHEDULED, Place, run_warm, sorted_rows, succeed
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.delta.notes import IngestNote
from tidemark.streaming.run import append

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = "2026-07-01T10:05:01Z"
LATER_ON = SCHEDULED + timedelta(seconds=1)
# Where in the life of a batch the process ends.
Point = tuple[Literal["before", "after"], str]
BEFORE_BRONZE: Point = ("before", "accepted rows")
BETWEEN: Point = ("before", "rejected rows")
AFTER_REJECTS: Point = ("after", "rejected rows")


def row(key: str, at: str = "2026-07-01T10:00:00Z") -> dict[str, Any]:
    return {"at": at, "key": key, "amount": 1}


def fail(spark: SparkSession, place: Place, point: Point, scheduled: datetime = SCHEDULED) -> None:
    """A run whose first batch fails at a point of its life."""
    with killed(*point):
        error = run_warm(spark, place, "failed", scheduled=scheduled).error
    assert error is not None
    assert "Killed" in error.message
    assert error.retry_can_help


def land_first(place: Place) -> dict[str, Path]:
    """Five files with a good and a bad line each, and one that cannot be read."""
    paths = {
        name: place.land(f"{name}.json", [row(name), f"bad {name}"])
        for name in ("same", "changed", "gone", "steady", "touched")
    }
    cut = gzip.compress(b"".join(b'{"at":"2026-07-01T10:00:00Z"}\n' for _ in range(500)))
    paths["unreadable"] = place.root / "landing" / "unreadable.json.gz"
    paths["unreadable"].write_bytes(cut[: len(cut) // 2])
    return paths


def change(place: Place, paths: dict[str, Path]) -> None:
    """What may happen to the files before the batch is repeated, and a new one arrives."""
    place.land("changed.json", [row("changed now"), row("one more"), "bad now"])
    set_newer(paths["changed"])
    paths["gone"].unlink()
    paths["unreadable"].write_bytes(gzip.compress(b'{"at":"2026-07-01T10:00:00Z","key":"whole"}\n'))
    set_newer(paths["unreadable"])
    set_newer(paths["touched"])
    place.land("arrived.json", [row("arrived"), "bad arrived"])


def set_newer(path: Path) -> None:
    later = path.stat().st_mtime + 10
    os.utime(path, (later, later))


def accepted(place: Place) -> list[tuple[str, int]]:
    rows = place.bronze().to_pylist()
    return sorted((r["key"], r["_batch"]) for r in rows)


def rejected(place: Place) -> list[tuple[str, str, str | None, int]]:
    """File, reason, line and batch of each reject."""
    rows = place.rejects().to_pylist()
    return sorted(
        (Path(unquote(r["_file"])).name.split(".")[0], r["reason"], r["raw"], r["_batch"])
        for r in rows
    )


def lines(names: Iterable[str], batch: int = 0) -> list[tuple[str, str, str | None, int]]:
    return [(name, "malformed", f"bad {name}", batch) for name in names]


def assert_gold_is_bronze(place: Place) -> None:
    events = dict(zip(*place.gold().select(["key", "events"]).to_pydict().values(), strict=True))
    keys = place.bronze()["key"].to_pylist()
    assert events == {key: keys.count(key) for key in keys}


@pytest.mark.parametrize("then", [4_096, 16_000])
def test_a_batch_ends_with_the_bound_of_lines_that_its_accepted_rows_were_committed_with(
    spark: SparkSession, tmp_path: Path, then: int
) -> None:
    """A line between the old bound and the new one would be in both tables, or in none."""
    place = Place(tmp_path, max_line_bytes=8_000)
    place.land("a.json", [row("k" * 6_000), row("k" * 9_000), row("k")])
    fail(spark, place, BETWEEN)
    assert sorted(map(len, place.bronze()["key"].to_pylist())) == [1, 6_000]
    place.max_line_bytes = then
    rows = succeed(spark, place).rows
    assert (rows.read, rows.accepted, rows.rejected) == (3, 2, {"too large": 1})
    [reject] = place.rejects().to_pylist()
    assert reject["detail"].startswith("Line 2 has 9,0")
    # The next batch goes by what the setting says now.
    place.land("b.json", [row("k" * 9_000)])
    rows = succeed(spark, place, "next", scheduled=LATER_ON).rows
    assert rows.accepted == (1 if then == 16_000 else 0)


@pytest.mark.long
def test_failed_before_bronze_the_batch_is_read_from_the_files_as_they_are_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    paths = land_first(place)
    fail(spark, place, BEFORE_BRONZE)
    assert (place.bronze().num_rows, place.rejects().num_rows) == (0, 0)
    change(place, paths)
    # Of the repeated batch once more, now after it took a file that had changed since its listing.
    fail(spark, place, BETWEEN)
    result = succeed(spark, place)
    assert result.batches["ingest"] == [0, 1]
    kept = ["changed now", "one more", "same", "steady", "touched", "whole"]
    assert accepted(place) == sorted([*((key, 0) for key in kept), ("arrived", 1)])
    assert rejected(place) == sorted(
        [
            *lines(["same", "steady", "touched"]),
            *lines(["arrived"], batch=1),
            ("changed", "malformed", "bad now", 0),
            ("gone", "unreadable file", None, 0),
        ],
    )
    rows = result.rows
    assert (rows.read, rows.accepted) == (7 + 6, 7)
    assert rows.rejected == {"malformed": 5, "unreadable file": 1}
    assert_gold_is_bronze(place)


def test_failed_between_bronze_and_rejects_bronze_stays_and_each_changed_file_is_one_reject(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    paths = land_first(place)
    fail(spark, place, BETWEEN)
    first = ["changed", "gone", "same", "steady", "touched"]
    assert accepted(place) == [(key, 0) for key in first]
    assert place.rejects().num_rows == 0
    change(place, paths)
    result = succeed(spark, place)
    assert result.batches["ingest"] == [0, 1]
    assert accepted(place) == sorted([*((key, 0) for key in first), ("arrived", 1)])
    assert rejected(place) == sorted(
        [
            *lines(["same", "steady"]),
            *lines(["arrived"], batch=1),
            *((name, "changed file", None, 0) for name in ("changed", "gone", "touched")),
            # It can be read now, and is not: bronze was committed without it.
            ("unreadable", "unreadable file", None, 0),
        ],
    )
    times = {
        r["_batch_time"]
        for r in (*place.bronze().to_pylist(), *place.rejects().to_pylist())
        if r["_batch"] == 0
    }
    assert len(times) == 1
    details = {
        Path(r["_file"]).name: r["detail"]
        for r in place.rejects().to_pylist()
        if r["reason"] == "changed file"
    }
    assert "has changed since" in details["changed.json"]
    assert "is gone since" in details["gone.json"]
    assert result.rows.accepted == 6
    assert result.rows.rejected == {"changed file": 3, "malformed": 3, "unreadable file": 1}
    # Of changed files nobody knows how many lines they had: what is read is the sum.
    assert result.rows.read == 6 + 7
    assert_gold_is_bronze(place)


@pytest.mark.long
def test_a_file_that_can_no_longer_be_read_when_it_is_repeated_is_a_changed_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    path = place.root / "landing" / "a.json.gz"
    path.parent.mkdir()
    whole = gzip.compress(b'{"at":"2026-07-01T10:00:00Z","key":"a"}\nbad\n' * 300)
    path.write_bytes(whole)
    listed = path.stat()
    fail(spark, place, BETWEEN)
    path.write_bytes(whole[: len(whole) // 2])
    os.utime(path, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    result = succeed(spark, place)
    assert rejected(place) == [("a", "changed file", None, 0)]
    assert (result.rows.accepted, place.bronze().num_rows) == (300, 300)


@pytest.mark.long
def test_failed_after_rejects_nothing_is_written_twice(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    paths = land_first(place)
    fail(spark, place, AFTER_REJECTS)
    versions = _versions(place)
    before = sorted_rows(place.bronze()), sorted_rows(place.rejects())
    paths["gone"].unlink()
    result = succeed(spark, place)
    assert (sorted_rows(place.bronze()), sorted_rows(place.rejects())) == before
    assert _versions(place) == versions
    assert result.rows.accepted == 5
    assert result.rows.rejected == {"malformed": 5, "unreadable file": 1}
    assert result.rows.read == 5 * 2 + 1
    assert_gold_is_bronze(place)


def notes(place: Place) -> list[dict[str, Any]]:
    """The note of the last commit of bronze and of rejects."""
    tables = [DeltaTable(uri) for uri in (place.places.bronze, place.places.rejects)]
    return [json.loads(table.history(1)[0]["userMetadata"]) for table in tables]


def test_both_notes_of_a_repeated_batch_tell_what_was_read_first_and_when_it_was_scheduled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.land("a.json", [row("a"), "bad", "bad"])
    fail(spark, place, BETWEEN, SCHEDULED)
    rows = run_warm(spark, place, "second", scheduled=LATER_ON).rows
    assert (rows.read, rows.accepted, rows.rejected) == (3, 1, {"malformed": 2})
    in_bronze, in_rejects = notes(place)
    assert (in_bronze.pop("run"), in_rejects.pop("run")) == ("failed", "second")
    assert in_bronze == in_rejects
    assert in_rejects["scheduled_ms"] == epoch_ms(SCHEDULED)
    assert in_rejects["rows"] == rows.model_dump(exclude_none=True)


@pytest.mark.long
def test_a_note_without_a_scheduled_time_is_read_and_the_repeat_writes_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_before(note: IngestNote) -> dict[str, str]:
        """As the first version wrote it, which knew no kinds either."""
        told = note.model_dump(mode="json", exclude={"kind", "version", "scheduled_ms"})
        told |= {"files": told.pop("verdicts"), "seen_ms": told.pop("seen")}
        return {"userMetadata": json.dumps(told)}

    place = Place(tmp_path)
    place.land("a.json", [row("a"), "bad"])
    with monkeypatch.context() as patch:
        patch.setattr(append, "as_metadata", as_before)
        fail(spark, place, BETWEEN)
    assert succeed(spark, place, scheduled=LATER_ON).rows.read == 2
    in_bronze, in_rejects = notes(place)
    assert "scheduled_ms" not in in_bronze
    assert in_rejects["scheduled_ms"] == epoch_ms(LATER_ON)


def _versions(place: Place) -> list[int]:
    return [DeltaTable(uri).version() for uri in (place.places.bronze, place.places.rejects)]


def test_a_repeated_batch_judges_what_is_future_by_its_own_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.land(
        "a.json", [row("at the limit", "2026-07-01T10:05:00Z"), row("a second later", LATER)]
    )
    fail(spark, place, BEFORE_BRONZE)
    # As though the batch had begun before those events, and its repeat came long after them.
    offsets = Path(place.places.ingest_checkpoint) / "offsets" / "0"
    begun = datetime(2026, 7, 1, 9, 55, tzinfo=UTC)
    begun_ms = int(begun.timestamp() * 1000)
    text, edits = re.subn(
        r'"batchTimestampMs":\d+', f'"batchTimestampMs":{begun_ms}', offsets.read_text()
    )
    assert edits == 1
    offsets.write_text(text)
    # Its checksum no longer fits.
    offsets.with_name(".0.crc").unlink(missing_ok=True)
    result = succeed(spark, place)
    assert result.rows.rejected == {"future": 1}
    assert accepted(place) == [("at the limit", 0)]
    [reject], [good] = place.rejects().to_pylist(), place.bronze().to_pylist()
    assert (reject["_batch_time"], good["_batch_time"]) == (begun, begun)


@pytest.mark.long
def test_with_its_checkpoint_lost_a_source_is_not_read_a_second_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.land("a.json", ["only a reject"])
    succeed(spark, place)
    shutil.move(place.places.ingest_checkpoint, tmp_path / "lost")
    _assert_refused(spark, place)
    shutil.move(tmp_path / "lost", place.places.ingest_checkpoint)
    place.land("b.json", [row("b")])
    succeed(spark, place)
    shutil.move(place.places.ingest_checkpoint, tmp_path / "lost")
    _assert_refused(spark, place)
    assert (place.bronze().num_rows, place.rejects().num_rows) == (1, 1)


def _assert_refused(spark: SparkSession, place: Place) -> None:
    error = run_warm(spark, place, "refused").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("TableLost", False)
    assert f"{place.places.ingest_checkpoint} is not there" in error.message
    assert not Path(place.places.ingest_checkpoint).exists()
