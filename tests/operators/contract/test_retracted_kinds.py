"""Gold is what a batch over the rows gives that were not retracted, for every kind, and whatever
comes before and after."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.kit.late_model import EPOCH
from tests.kit.retracting import retracted
from tests.kit.running import succeed
from tests.operators.contract.joins import sides
from tests.operators.contract.kinds import KINDS, MINUTE, Kind, Row, landings_of, place_of
from tests.operators.contract.test_operator_kinds import check_gold
from tests.streaming.audits import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One of each family is with the tests that run first.
IN_SHORT = ("folds", "sessions-append")
each_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=() if name in IN_SHORT else pytest.mark.long)
        for name, kind in KINDS.items()
    ],
)
RUNS = 4
MICROSECOND = MINUTE / 60_000_000


@pytest.fixture(scope="module", autouse=True)
def _known_to_spark() -> None:
    importlib.import_module("tests.operators.contract.streamed_stretches")


@each_kind
def test_random_rows_that_are_retracted_between_runs_are_as_if_they_had_never_come(
    spark: SparkSession, tmp_path: Path, kind: Kind
) -> None:
    place, draw = place_of(tmp_path / "root", kind), Random(kind.name)
    place.root.mkdir()
    rows: list[Row] = []
    gone: dict[str, list[Row]] = {}

    def without(part: int, of: int) -> str:
        nonlocal rows
        wrong, rows = parted(rows, lambda row: micros(row) % of == part)
        where = f"pmod(unix_micros(at), {of}) = {part}"
        change = retracted(spark, place, where=where).change
        assert change is not None
        assert change.rows == len(wrong)
        gone[change.id] = wrong
        check_gold(place, rows)
        return change.id

    for number, new in enumerate(landings_of(kind, draw.randint(0, 99), RUNS)):
        place.land_rows(f"{number}.json", new)
        rows += new
        succeed(spark, place, f"run-{number}")
        check_gold(place, rows)
        if number == 1:
            first = without(part_with(rows, 3), 3)
        elif number == RUNS - 2:
            without(part_with(rows, 2), 2)
    retracted(spark, place, undo=first)
    rows += gone.pop(first)
    check_gold(place, rows)
    place.land_rows("last.json", landings_of(kind, 7, 1)[0])
    rows += landings_of(kind, 7, 1)[0]
    succeed(spark, place, "last")
    check_gold(place, rows)
    assert audit(spark, place).outcome == "equal"


def micros(row: Row) -> int:
    return int((row["at"] - EPOCH) // MICROSECOND)


def parted(rows: Sequence[Row], is_wrong: Callable[[Row], bool]) -> tuple[list[Row], list[Row]]:
    """Rows of this bronze that are wrong, and all others; those of the other side stay."""
    left, right = sides(rows)
    return [row for row in left if is_wrong(row)], [
        *(row for row in left if not is_wrong(row)),
        *right,
    ]


def part_with(rows: Sequence[Row], of: int) -> int:
    """One that has a row."""
    return micros(sides(rows)[0][0]) % of
