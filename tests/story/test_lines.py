"""The line of a row in its file, counted in the file as it is, or why it is not told."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import FilesSource
from tidemark.sources.formats.formats import slices_of
from tidemark.storage.files import stat_files
from tidemark.story import lines
from tidemark.story.lines import row_places
from tidemark.story.story import RowPlace

NOW = datetime.now(UTC)
LATER = NOW + timedelta(hours=1)


def source() -> FilesSource:
    found = pipeline_from_mapping("clicks", clicks()).source
    assert isinstance(found, FilesSource)
    return found


def row(
    file: Path, place: int | None, read_at: datetime | None = LATER
) -> tuple[dict[str, Any], datetime | None]:
    return {"_file": f"file://{file}", "_place": place}, read_at


def told(*rows: tuple[dict[str, Any], datetime | None]) -> list[RowPlace]:
    found = row_places(source(), {}, *zip(*rows, strict=True))
    assert [one.origin for one in found] == [origin for origin, _ in rows]
    return found


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("begins", [b"", b"\xef\xbb\xbf"])
def test_each_line_is_found_by_the_place_that_ingest_notes_of_it(
    tmp_path: Path, name: str, begins: bytes
) -> None:
    text = b"\n".join(json.dumps({"n": n, "of": "x" * n}).encode() for n in range(300))
    data = begins + text
    file = tmp_path / name
    file.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    uri = f"file://{file}"
    (facts,) = stat_files([uri], {}).values()
    assert facts is not None
    places = [
        place
        for one in slices_of(source(), {uri: facts}, {})
        for piece in one.lines(10_000)
        for place in piece.column("_place").to_pylist()
    ]
    assert len(places) == 300
    found = told(*(row(file, place) for place in reversed(places)))
    assert [one.line for one in found] == list(range(300, 0, -1))


def test_records_of_other_formats_are_told_by_their_numbers(tmp_path: Path) -> None:
    (found,) = told(row(tmp_path / "a.csv", 41))
    assert (found.line, found.record, found.unknown) == (None, 42, None)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ("gone", "the file is not there any more"),
        ("later", "the file has changed since it was read, or may have"),
        ("unknown", "the file has changed since it was read, or may have"),
        ("shorter", "it lies too far into the file to count its lines"),
        ("unnoted", "its place in the file was not noted when it was read"),
    ],
)
def test_where_a_line_cannot_be_counted_it_is_said_why(
    tmp_path: Path, changed: str, why: str
) -> None:
    file = tmp_path / "a.json"
    if changed != "gone":
        file.write_text("{}\n" * 10)
    read_at = {"later": NOW - timedelta(hours=1), "unknown": None}.get(changed, LATER)
    place = {"shorter": 3_000, "unnoted": None}.get(changed, 3)
    (found,) = told(row(file, place, read_at))
    assert (found.line, found.record, found.unknown) == (None, None, why)


@pytest.mark.parametrize("begins", ["", "\ufeff"])
def test_a_place_at_which_no_line_begins_is_one_of_another_file_though_that_is_older(
    tmp_path: Path, begins: str
) -> None:
    file = tmp_path / "a.json"
    file.write_text(begins + "".join(f'{{"key":"{n}"}}\n' for n in range(100, 110)))
    at = len(begins.encode())
    assert [one.line for one in told(row(file, at), row(file, at + 14))] == [1, 2]
    changed = "the file has changed since it was read, or may have"
    assert [one.unknown for one in told(row(file, at), row(file, at + 20))] == [changed] * 2


def test_of_a_large_file_only_so_much_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_BYTES", 100)
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b"{}\n" * 20_000_000))
    near, far = told(row(file, 3), row(file, 59_999_997))
    assert near.line == 2
    assert (far.line, far.unknown) == (None, "it lies too far into the file to count its lines")
