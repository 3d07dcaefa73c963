"""A pipeline that went back reads its source again from there, whatever kind that is."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.rewinding import rewind_warm, rewound
from tests.kit.running import sorted_rows, succeed
from tests.sources.contract.worlds import WORLDS, Files, Topics, World
from tidemark.errors import RewindRefused
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.recompute.rewind.plan import planned
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.requests import RewindRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAD = "not JSON"
# tests/end_to_end/test_rewinds.py shows one of files at every run.
LONG = dict.fromkeys(WORLDS, pytest.mark.long)
# One that does not say that its rows are gone has nothing to refuse.
KINDS = [name for name in WORLDS if name != "log"]


@pytest.fixture(params=[pytest.param(name, marks=LONG.get(name, ())) for name in KINDS])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "kafka":
        Topics.broker = request.getfixturevalue("broker")
    found: World = WORLDS[request.param](tmp_path)
    return found


def test_what_came_since_is_read_again_once_and_refused_where_it_is_gone(
    spark: SparkSession, world: World
) -> None:
    for number in range(3):
        world.land(str(number), [row(f"of {number}", number), BAD, row("each", number)])
        succeed(spark, world.place, f"run-{number}")
    before = tables(world)
    result = rewound(spark, world.place, "run-0")
    assert result.change is not None
    assert result.change.ingest.batch == 0
    assert {one["_batch"] for one in world.place.bronze().to_pylist()} == {0}
    again = succeed(spark, world.place, "again")
    assert (again.rows.read, again.rows.accepted) == (6, 4)
    assert tables(world) == before
    seeds = seeds_of(world.place.pipeline, world.place.warehouse)
    lines = rebuilt_lines(Ledgered(world.place.pipeline, world.place.warehouse, seeds))
    assert [(one.batch, one.read) for one in lines if one.kind == "ingest"] == [(0, 3), (1, 6)]
    assert all(not one.difference for one in lines)

    if isinstance(world, Topics):
        check_points(world)
    if not isinstance(world, Files):
        left = rewind_warm(spark, world.place, "run-0", dry_run=True, without=("part-1",))
        assert left.error is not None
        assert "only of a source of files a part can be left out" in left.error.message
    world.lose("1")
    refused = rewind_warm(spark, world.place, "run-0", dry_run=True)
    assert refused.error is not None
    assert "gone" in refused.error.message
    assert tables(world) == before


def check_points(world: Topics) -> None:
    """Each part is a partition of three offsets, which runs read in their order."""
    told = partial(planned, world.place.pipeline, world.place.settings)
    now = datetime.now(UTC)
    for offsets, to_run in (({"1": 0}, "run-0"), ({"0": 3}, "again"), ({"0": 3, "2": 2}, "run-0")):
        asked = to_offsets(*(f"{world.topic}/{n}:{at}" for n, at in offsets.items()))
        assert told(asked, now).change.to_run == to_run
    with pytest.raises(RewindRefused, match="No run is known at whose end"):
        told(to_offsets(f"{world.topic}/0:2"), now)
    with pytest.raises(RewindRefused, match="it is none of the partitions"):
        told(to_offsets("others/0:2"), now)


def to_offsets(*offsets: str) -> RewindRequest:
    return RewindRequest(pipeline="any", to_offsets=offsets)


def row(key: str, minute: int) -> dict[str, Any]:
    return {"at": f"2026-07-01T10:{minute:02}:00Z", "key": key, "amount": 1}


def tables(world: World) -> list[list[tuple[Any, ...]]]:
    """Without the numbers and times of batches: what came in two is one batch now."""
    found = (world.place.bronze(), world.place.rejects())
    return [sorted_rows(table, without=("_batch", "_batch_time")) for table in found]
