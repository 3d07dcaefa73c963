"""A pipeline that went back and ran again is what an undisturbed one is, for every kind."""

from __future__ import annotations

import importlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.kit.rewinding import rewound
from tests.kit.running import sorted_rows, succeed
from tests.operators.contract.kinds import (
    KINDS,
    TABLE,
    Kind,
    KindPlace,
    Row,
    event,
    landings_of,
    place_of,
)
from tests.operators.contract.test_operator_kinds import check_gold
from tests.operators.contract.told import check_stories
from tests.streaming.audits import audit
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.runs.contract.recorded import seeds_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What differs between them is their migration's, which has short tests of each; windows are rewound
# at every run by `end_to_end/test_rewinds.py`.
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
RUNS = 4
# When a batch was planned and a file was written.
_TIMES = ("_batch_time", "_source_modified")


@pytest.fixture(scope="module", autouse=True)
def _known_to_spark() -> None:
    importlib.import_module("tests.operators.contract.streamed_stretches")


@pytest.mark.long
@each_kind
@pytest.mark.parametrize("seed", [7, 8])
def test_rewound_to_any_run_and_run_again_it_is_as_one_that_never_went_on(
    spark: SparkSession, tmp_path: Path, kind: Kind, seed: int
) -> None:
    place, drawn = place_of(tmp_path / "root", kind), landings_of(kind, seed, RUNS)
    place.root.mkdir()
    back_to = Random(seed).randint(0, RUNS - 2)
    rows: list[Row] = []
    for number, new in enumerate(drawn[: back_to + 1]):
        rows += landed(spark, place, number, new)
    place.keep()
    for number, new in enumerate(drawn[back_to + 1 :], back_to + 1):
        rows += landed(spark, place, number, new)
    result = rewound(spark, place, f"run-{back_to}")
    assert result.change is not None
    assert result.change.undone == tuple(f"run-{n}" for n in range(back_to + 1, RUNS))
    # Of joins the other side went on, of lookups what they say.
    if not kind.joins and not kind.looks_up:
        assert all(one.corrected == 0 for one in result.found.values())
    succeed(spark, place, "after")
    check_gold(place, rows)
    assert audit(spark, place).outcome == "equal"
    if kind.name != "stretches":
        stories = check_stories(place, rows)
        values = [value for story in stories.values() for value in story.values]
        undone = {value.run for value in values if value.undone}
        assert undone <= {f"run-{n}" for n in range(back_to + 1, RUNS)}
        assert {value.generation for value in values if value.undone} <= {1}
        # The first one of some kinds has nothing to compute.
        own = result.change.run_id
        assert all((value.cause == "rewind") == (value.run == own) for value in values)
    found = told(place)

    place = place.again()
    for number, new in enumerate(drawn[back_to + 1 :], back_to + 1):
        place.land_rows(f"{number}.json", new)
    succeed(spark, place, "after")
    assert found == told(place)
    # And it goes on from there.


def landed(spark: SparkSession, place: KindPlace, number: int, new: list[Row]) -> list[Row]:
    place.land_rows(f"{number}.json", new)
    succeed(spark, place, f"run-{number}")
    return new


def told(place: KindPlace) -> dict[str, Any]:
    """All that has to be the same; of a join values only, as the other bronze was ahead, and so of
    what looks others up."""
    others = place.kind.joins or place.kind.looks_up
    own = ("updated_by", "status", "revision") if others else ("updated_by",)
    source = Ledgered(place.pipeline, place.warehouse, seeds_of(place.pipeline, place.warehouse))
    ledger = [line for line in rebuilt_lines(source) if line.kind == "ingest"]
    return {
        "gold": sorted_rows(place.gold(TABLE), without=own),
        "bronze": sorted_rows(place.bronze(), without=_TIMES),
        "rejects": sorted_rows(place.rejects(), without=_TIMES),
        "ledger": [(one.batch, one.read, one.accepted, one.rejected) for one in ledger],
        "recorded": recorded(place),
    }


def recorded(place: KindPlace) -> list[tuple[Any, ...]]:
    """The ledger's lines of ingest that count."""
    lines = place.table(place.places.ledger)
    if "rewound" not in lines.column_names:
        lines = lines.append_column("rewound", pa.nulls(lines.num_rows, pa.string()))
    return sorted(
        (row["batch"], row["read"], row["accepted"], row["rejected"])
        for row in lines.to_pylist()
        if row["kind"] == "ingest" and row["rewound"] is None
    )


@pytest.mark.long
def test_a_rewound_table_takes_late_rows_as_before(spark: SparkSession, tmp_path: Path) -> None:
    """Into windows that were closed before the run that it went back to."""
    place = place_of(tmp_path, kind_named("windows-append-recomputed"))
    rows: list[Row] = []
    for number, new in enumerate(landings_of(place.kind, 3, RUNS)):
        rows += landed(spark, place, number, new)
    rewound(spark, place, "run-2")
    rows += landed(spark, place, RUNS, [event(3), event(9, "b")])
    check_gold(place, rows)


def kind_named(name: str) -> Kind:
    return KINDS[name]
