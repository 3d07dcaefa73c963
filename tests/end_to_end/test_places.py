"""Where a row or a reject stands in its file, and ids of rejects: the same each time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pytest

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.streaming.audits import event
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.sources.kinds import row_origin
from tidemark.streaming.ingest import judged_lines
from tidemark.streaming.ingest.judged_slices import reject_ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def place_at(root: Path) -> Place:
    source = clicks()["source"]
    source["columns"]["id"] = "string"
    source |= {
        "files": "landing/*",
        "format": "json_lines",
        "derive": {"half": "10 / amount"},
        "unique": {"by": "id", "within": "1 hour"},
    }
    return Place(root, clicks(source=source))


def row(minute: int, name: str, amount: int = 1) -> dict[str, Any]:
    return {**event(10, minute, "a", amount), "id": name}


def land(place: Place) -> None:
    """Two good rows, and rejects of each origin: a line, an expression, a repetition, a file."""
    place.land("1.json", [row(1, "x"), "no json", row(2, "y", 0), row(3, "x"), row(4, "z")])
    packed = "".join(f"{json.dumps(one)}\n" for one in (row(5, "p"), {"at": "never"}))
    (place.root / "landing" / "2.json.gz").write_bytes(gzip.compress(packed.encode()))
    (place.root / "landing" / "3.json.gz").write_bytes(b"not packed")


def line_at(file: str, place: int) -> str:
    path = Path(unquote(urlparse(file).path))
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return data[place:].partition(b"\n")[0].decode()


@pytest.mark.parametrize("few_bytes", [32_000_000, pytest.param(0, marks=pytest.mark.long)])
def test_a_row_is_found_again_by_its_place_and_a_reject_has_the_same_id_each_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    monkeypatch.setattr(judged_lines, "FEW_BYTES", few_bytes)
    place = place_at(tmp_path)
    land(place)
    with killed("before", "rejected rows"):
        assert run_warm(spark, place, "killed").error is not None
    succeed(spark, place, "again")
    bronze, rejects = place.bronze().to_pylist(), place.rejects()
    assert sorted(json.loads(line_at(one["_file"], one["_place"]))["id"] for one in bronze) == [
        "p", "x", "z"
    ]  # fmt: skip
    found = {one["reason"]: one for one in rejects.to_pylist()}
    assert found.keys() == {"malformed", "expression", "duplicate", "wrong type", "unreadable file"}
    for one in rejects.to_pylist():
        if one["raw"] is not None:
            assert line_at(one["_file"], one["_place"]) == one["raw"]
    assert found["unreadable file"]["_place"] is None
    # What Spark makes of a row and what Python does are one id.
    assert rejects["id"].to_pylist() == reject_ids(rejects, row_origin(place.pipeline)).to_pylist()
    assert len({one["id"] for one in rejects.to_pylist()}) == 5


def test_tables_of_before_get_the_column_and_rows_of_before_have_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_at(tmp_path)
    land(place)
    with monkeypatch.context() as before:
        before.setattr(FilesSourceHandle, "origin", FilesSourceHandle.origin[:1])
        succeed(spark, place)
    assert "_place" not in place.bronze().column_names
    # A repetition of a row of before is one still.
    place.land("4.json", [row(6, "z"), row(7, "new")])
    succeed(spark, place, "next")
    places = {one["id"]: one["_place"] for one in place.bronze().to_pylist()}
    assert places == {"x": None, "p": None, "z": None, "new": places["new"]}
    assert places["new"]
    repeated = [one for one in place.rejects().to_pylist() if one["reason"] == "duplicate"]
    assert sorted(one["_place"] is None for one in repeated) == [False, True]
