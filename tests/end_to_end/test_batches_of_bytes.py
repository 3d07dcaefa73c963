"""A run over much that waits goes in batches of bounded size, and says how far it is."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.killed import Killed
from tests.kit.running import Place, clicks, quiet, run_warm, succeed
from tests.sources.contract.worlds import WORLDS, typed
from tidemark import commit_point
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.problems import PipelineFileInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(file: int) -> list[dict[str, Any]]:
    """Of a few files more than of others."""
    number = 400 if file % 4 == 3 else 100
    return [
        {"at": f"2026-07-01T10:{n % 60:02}:00Z", "key": f"{file:02}-{n % 2}", "amount": n}
        for n in range(number)
    ]


def shown(place: Place) -> list[str]:
    gold = place.gold().select(["window_start", "key", "events", "amount"]).to_pylist()
    return sorted(map(repr, gold))


@pytest.mark.parametrize("kind", ["files", pytest.param("delta", marks=pytest.mark.second)])
def test_each_batch_has_at_most_so_many_bytes_or_one_part(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    world = WORLDS[kind](tmp_path / "limited")
    whole = WORLDS[kind](tmp_path / "whole")
    for file in range(10):
        world.land(str(file), rows(file))
        whole.land(str(file), rows(file))
    if kind == "files":
        sizes = {one.as_uri(): one.stat().st_size for one in (tmp_path / "limited").rglob("*.json")}
    else:
        table = DeltaTable(str(tmp_path / "limited" / "events"))
        added = pa.table(table.get_add_actions(flatten=True)).to_pydict()
        sizes = dict(zip(added["path"], added["size_bytes"], strict=True))
    most = 3 * min(sizes.values())
    limited = {**world.place.content, "advanced": {"max_bytes_per_batch": most}}
    place = replace(world.place, content=limited)
    progress = quiet()
    result = run_warm(spark, place, "one", progress=progress)
    assert isinstance(progress.out, io.StringIO)
    said = re.findall(r"ingest batch \d+ \((\d+) of about (\d+)\)", progress.out.getvalue())
    succeed(spark, whole.place, "one")
    assert shown(place) == shown(whole.place)
    read: dict[int, set[str]] = {}
    for row in place.bronze().select(["_batch", "_file"]).to_pylist():
        read.setdefault(row["_batch"], set()).add(row["_file"])
    assert sorted(file for files in read.values() for file in files) == sorted(sizes)
    assert max(Counter(file for files in read.values() for file in files).values()) == 1
    for files in read.values():
        assert len(files) == 1 or sum(sizes[file] for file in files) <= most
    assert len(read) == len(result.batches["ingest"]) > 3
    assert [int(number) for number, _ in said] == list(range(1, len(read) + 1))
    # Two large parts are each more than a batch's share: an estimate.
    (about,) = {int(number) for _, number in said}
    assert abs(about - len(read)) <= 2


@pytest.mark.second
@pytest.mark.parametrize("point", ["accepted rows", "rejected rows"])
def test_a_version_is_read_by_its_files_and_a_killed_run_goes_on_within_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    found = []
    for name, most in (("whole", None), ("cut", 2)):
        world = WORLDS["delta"](tmp_path / name)
        content = {**world.place.content, "advanced": {"max_files_per_batch": most}}
        place = replace(world.place, content=content)
        table = typed([*rows(3), {"at": None, "key": "z", "amount": 1}])
        by_key = table.append_column("part", pa.array([str(n % 7) for n in range(len(table))]))
        # One version, of seven files.
        write_deltalake(place.root / "events", by_key, partition_by=["part"])
        if most:
            with monkeypatch.context() as patch:
                reached = []

                def end(at: str, moment: str, _: object, reached: list[str] = reached) -> None:
                    if (at, moment) == (point, "before"):
                        reached.append(at)
                        if len(reached) == 2:
                            raise Killed(at)

                patch.setattr(commit_point, "on_reach", end)
                assert run_warm(spark, place, "killed").error is not None
        succeed(spark, place, "again")
        found.append((shown(place), place.bronze()["_batch"].to_pylist()))
        assert len(place.rejects()) == 1
    (whole, one), (cut, several) = found
    assert cut == whole
    assert len(one) == len(several) == 400
    assert (len(set(one)), len(set(several))) == (1, 4)


def test_what_limits_no_batch_is_refused() -> None:
    both = clicks(advanced={"max_bytes_per_batch": 5, "max_files_per_batch": 5})
    with pytest.raises(PipelineFileInvalid, match="the engine takes one"):
        pipeline_from_mapping("clicks", both)
    common = {name: one for name, one in clicks()["source"].items() if name != "files"}
    source = {"kafka": {"topic": "t", "connection": "c"}, **common}
    topics = clicks(source=source, advanced={"max_bytes_per_batch": 5})
    with pytest.raises(PipelineFileInvalid, match="say `max_messages_per_batch`"):
        pipeline_from_mapping("clicks", topics)
