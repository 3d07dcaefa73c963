"""Two pipelines of which one joins with the other, when that other one goes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_joins_by_jobs import OWN, TABLE, land
from tests.kit.rewinding import rewind_warm, rewound
from tests.kit.running import Place, run_warm, succeed
from tests.operators.contract.joins import OTHER, PARTNER, Row, join_table, joins
from tests.operators.contract.kinds import event, of
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.runs.losses import find_losses
from tidemark.runs.unfinished_act import check_no_unfinished_act

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = joins(join_table("left", before=1))
VALUES = ("window_end", "amount", "cost", "matches", "rows")
LANDED: list[list[Row]] = [
    [event(1), of(2), event(15), event(40), of(41)],
    [of(3), event(16), of(17), event(70), of(71)],
    [event(2, "b"), of(4, "b"), event(100), of(101)],
]


class Filed(Place):
    """By its file, beside which the other one lies."""

    @property
    def pipeline(self) -> Pipeline:
        return load_pipeline(self.write_file())


@pytest.fixture
def both(spark: SparkSession, tmp_path: Path) -> tuple[Place, Place]:
    other, place = Filed(tmp_path, PARTNER, name=OTHER), Filed(tmp_path, OWN)
    other.write_file()
    for number, rows in enumerate(LANDED):
        land(place, other, f"{number}.json", rows)
        succeed(spark, other, f"other-{number}")
        succeed(spark, place, f"run-{number}")
    check(place, [row for rows in LANDED for row in rows])
    return place, other


def check(place: Place, rows: list[Row]) -> None:
    """What is closed is what one batch over both sides gives."""
    gold = place.gold(TABLE).to_pylist()
    close = instant_of(gold_state(DeltaTable(place.places.gold(TABLE))).close_ms)
    held = {
        (row["window_start"], row["key"]): tuple(row[name] for name in VALUES)
        for row in gold
        if row["window_end"] <= close
    }
    assert held == {one: values for one, values in MODEL(rows).items() if values[0] <= close}


@pytest.mark.long
def test_who_joins_with_it_begins_anew_too_and_is_right_again_once_the_rows_have_come(
    spark: SparkSession, both: tuple[Place, Place]
) -> None:
    place, other = both
    result = rewound(spark, other, "other-0")
    assert result.change is not None
    assert [(one.pipeline, one.table) for one in result.change.readers] == [(place.name, TABLE)]
    assert find_losses(place.pipeline, place.warehouse) == ()
    # It stands for what both bronzes hold now.
    ahead = [row for row in LANDED[1] + LANDED[2] if "side" not in row]
    check(place, [*LANDED[0], *ahead])
    succeed(spark, other, "again")
    succeed(spark, place, "after")
    check(place, [row for rows in LANDED for row in rows])
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_who_joins_with_it_stops_where_it_could_not_begin_anew(
    spark: SparkSession, both: tuple[Place, Place]
) -> None:
    place, other = both
    file = place.write_file()
    text = file.read_text()
    file.unlink()
    result = rewind_warm(spark, other, "other-1")
    assert result.error is not None
    assert f"`tidemark migrate {place.name} --rebuild {TABLE}`" in result.error.message
    check_no_unfinished_act(other.warehouse)
    file.write_text(text)
    stopped = run_warm(spark, place, "stopped").error
    assert stopped is not None
    assert stopped.type == "TableLost"
    assert "was taken back to what it was at version" in stopped.message
    succeed(spark, other, "again")


@pytest.mark.long
def test_who_joins_goes_back_by_itself_and_is_corrected_as_its_rows_come_again(
    spark: SparkSession, both: tuple[Place, Place]
) -> None:
    place, _ = both
    rewound(spark, place, "run-0")
    succeed(spark, place, "again")
    check(place, [row for rows in LANDED for row in rows])
    assert audit(spark, place).outcome == "equal"
