"""A job that is really killed in a batch of each kind of source, and the run after it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.kit.running import run_job, sorted_rows
from tests.sources.contract import numbered_log  # noqa: F401
from tests.sources.contract.worlds import WORLDS, Topics, World

pytestmark = pytest.mark.process

JOB = Path(__file__).with_name("killed_job.py")
# Of where a row comes from, what each root has under a name of its own.
OWN = ("_file", "_topic", "_batch_time")


def landed(kind: str, root: Path) -> World:
    world = WORLDS[kind](root)
    world.land("0", [row(0, "a"), "not JSON"])
    world.land("1", [row(1, "b"), "[]"])
    return world


def row(minute: int, key: str) -> dict[str, object]:
    return {"at": f"2026-07-01T10:0{minute}:00Z", "key": key, "amount": 1}


def rows_of(world: World) -> list[list[tuple[object, ...]]]:
    """Without what is each root's own; of a file its name."""
    found = []
    for table in (world.place.bronze(), world.place.rejects()):
        where = [str(world.where(row)[-1]).rpartition("/")[2] for row in table.to_pylist()]
        own = [name for name in OWN if name in table.column_names]
        found.append(sorted_rows(table.drop_columns(own).append_column("where", [where])))
    return found


@pytest.mark.long
@pytest.mark.parametrize("kind", WORLDS)
def test_killed_between_bronze_and_rejects_a_batch_is_finished_by_the_next_run(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    if kind == "kafka":
        Topics.broker = request.getfixturevalue("broker")
    undisturbed = landed(kind, tmp_path / "undisturbed")
    assert run_job(undisturbed.place, script=JOB).exit_code == 0
    world = landed(kind, tmp_path / "killed")
    end = run_job(world.place, "killed", JOB, ["--kill", "after", "accepted rows", "1"])
    assert end.exit_code == -signal.SIGKILL, end.output
    assert (world.place.bronze().num_rows, world.place.rejects().num_rows) == (2, 0)
    end = run_job(world.place, "again", JOB)
    assert end.exit_code == 0, end.output
    assert end.result is not None
    assert (end.result.rows.read, end.result.rows.accepted) == (4, 2)
    assert rows_of(world) == rows_of(undisturbed)
