"""Two pipelines by their files, each run by jobs of its own, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import Place, clicks, run_job, start_job
from tests.operators.contract.joins import OTHER, PARTNER, Row, join_table, joins
from tests.operators.contract.kinds import as_json, event, of
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import load_pipeline

pytestmark = pytest.mark.process

TABLE = "matched"
OWN = clicks(
    tables={
        TABLE: {
            "join": {
                "with": OTHER,
                "on": {"key": "id"},
                "within": {"before": "1 minute", "after": "7 minutes"},
                "type": "left",
            },
            "window": {"length": "10 minutes"},
            "group_by": ["key"],
            "measures": {"amount": "sum(amount)", "cost": f"sum({OTHER}.cost)"},
        }
    }
)


def land(place: Place, other: Place, name: str, rows: list[Row]) -> None:
    place.land(name, as_json([row for row in rows if "side" not in row]))
    theirs = [
        {"ordered": row["at"].isoformat(), "id": row["key"], "cost": row["amount"]}
        for row in rows
        if "side" in row
    ]
    other.land(name, theirs, "landing_orders")


@pytest.mark.long
def test_jobs_of_both_pipelines_at_once_leave_what_one_batch_gives(tmp_path: Path) -> None:
    place, other = Place(tmp_path, OWN), Place(tmp_path, PARTNER, name=OTHER)
    other.write_file()
    place.write_file()
    rows = [event(1), event(4, "b"), of(2), event(15)]
    land(place, other, "0.json", rows)
    for first in (other, place):
        done = run_job(first, f"first-{first.name}")
        assert done.exit_code == 0, done.output
    for number, new in enumerate(
        (
            [event(5, "b"), of(5, "b"), event(40), of(41), of(16)],
            [of(6), event(6, "b"), event(90), of(91), of(44, "b")],
        ),
        1,
    ):
        land(place, other, f"{number}.json", new)
        rows += new
        jobs = [start_job(one, f"at-once-{number}-{one.name}") for one in (other, place)]
        for job in jobs:
            output, _ = job.communicate(timeout=HUNG_SECONDS)
            assert job.returncode == 0, output
    assert run_job(place, "last").exit_code == 0
    close = instant_of(gold_state(DeltaTable(place.places.gold(TABLE))).close_ms)
    known = {
        (row["window_start"], row["key"]): tuple(
            row[name] for name in ("window_end", "amount", "cost", "matches", "rows")
        )
        for row in place.gold(TABLE).to_pylist()
    }
    every = joins(join_table("left", before=1))(rows)
    assert known == {one: found for one, found in every.items() if found[0] <= close}
    assert len(known) >= 4
    # The files say what the model of the test says.
    assert (
        load_pipeline(place.write_file()).tables[TABLE].rows_are
        == join_table("left", before=1).rows_are
    )
