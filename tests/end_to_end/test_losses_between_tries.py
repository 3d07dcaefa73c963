"""A run is killed, a table or a checkpoint is lost, and the run is tried again.

As in `test_losses.py`: gold equals the batch aggregate of all landed rows, or two tries stopped,
changed nothing, and said which place and why.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.test_losses import (
    LAST,
    OF_TABLES,
    History,
    check_stops,
    expected,
    from_run,
    gold_of,
    mode_of,
    thing,
)
from tests.kit.killed import killed
from tests.kit.running import Place, run_warm
from tidemark.runs.losses import find_losses

KILLS = (
    "accepted rows",
    *(
        pytest.param(point, marks=pytest.mark.long)
        for point in ("rejected rows", "windows of the stream", "recomputed windows", "gold")
    ),
)
DAMAGES = {**OF_TABLES, "as before the killed run": from_run(LAST)}
BACK = ("removed", "as before the killed run", "one run back")
# Here nothing was lost, as with `rejects`: the next try goes on, with the long tests.
SAME = [("changes", "as before the killed run"), ("query", "as before the killed run")]
LOSSES = [
    *(
        pytest.param(name, damage, marks=pytest.mark.long if (name, damage) in SAME else ())
        for name in ("bronze", "rejects", "changes", "ingest", "query")
        for damage in BACK
    ),
    *((name, "without its last commit") for name in ("bronze", "rejects", "changes")),
]


@pytest.fixture(params=KILLS)
def killed_run(history: History, spark: SparkSession, request: pytest.FixtureRequest) -> Path:
    """The root as a run left it that was killed right after this commit; a copy of it."""
    kept = history.copies / f"killed after {request.param}"
    if not kept.exists():
        place = history.back()
        with killed("after", request.param):
            assert run_warm(spark, place, "killed").error is not None
        shutil.copytree(place.root, kept)
    return kept


@pytest.mark.parametrize(("name", "damage"), LOSSES, ids=lambda value: value)
def test_the_next_try_is_right_or_stops_and_says_why(
    history: History, killed_run: Path, spark: SparkSession, name: str, damage: str
) -> None:
    place = history.place
    shutil.rmtree(place.root)
    shutil.copytree(killed_run, place.root)
    DAMAGES[damage](history, name)
    if find_losses(place.pipeline, place.warehouse):
        check_stops(place, thing(place, name).parent)
        return
    check_is_right(spark, place)


def check_is_right(spark: SparkSession, place: Place) -> None:
    for number in (1, 2):
        result = run_warm(spark, place, f"again{number}")
        assert result.error is None, result.error
        assert gold_of(place) == expected(place, mode_of(place))
        place.land(f"{LAST + 2}.json", [{"at": "2026-07-01T15:00:00Z", "key": "a", "amount": 7}])
