"""Gold is what a batch gives over the rows that a Delta table of others holds, for every kind,
however they were changed between runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import clicks, succeed
from tests.operators.contract.joins import sides
from tests.operators.contract.kinds import KINDS, Kind, KindPlace, Row, landings_of
from tests.operators.contract.test_operator_kinds import check_gold
from tests.streaming.audits import audit
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One of each family is with the tests that run first.
IN_SHORT = ("sessions-append",)
each_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=() if name in IN_SHORT else pytest.mark.long)
        for name, kind in KINDS.items()
    ],
)
RUNS = 4
SOURCE = {
    "delta": {"table": "followed", "changes": "follow", "key": "id"},
    "columns": {"id": "long not null", "at": "timestamp", "key": "string", "amount": "long"},
    "event_time": {"column": "at"},
}
SCHEMA = pa.schema(
    {"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "key": pa.string(), "amount": pa.int64()}
)


@pytest.fixture(scope="module", autouse=True)
def _known_to_spark() -> None:
    importlib.import_module("tests.operators.contract.streamed_stretches")


@dataclass
class FollowedPlace(KindPlace):
    """A kind whose rows are those of a Delta table, by their ids."""

    held: dict[int, Row] = field(default_factory=dict)

    @property
    def pipeline(self) -> Pipeline:
        source = pipeline_from_mapping(self.name, clicks(source=SOURCE)).source
        return super().pipeline.model_copy(update={"source": source})

    def change(self, draw: Random, new: list[Row]) -> None:
        """Some rows come, some are others, some go: each in a version of its own, in any order."""
        table = str(self.root / "followed")
        first = max(self.held, default=0) + 1
        came = dict(enumerate(new, first))
        known = list(self.held)
        others = draw.sample(known, len(known) // 5)
        gone = [one for one in draw.sample(known, len(known) // 8) if one not in others]
        merged = {one: self._another(draw, self.held[one]) for one in others}
        appended = [(one, row) for one, row in came.items() if draw.random() < 0.6 or not known]
        merged |= {one: row for one, row in came.items() if (one, row) not in appended}
        acts: list[tuple[str, Any]] = [("append", dict(appended)), ("merge", merged), ("go", gone)]
        for act, rows in draw.sample(acts, len(acts)) if known else acts[:1]:
            if act == "append" and rows:
                write_deltalake(table, as_table(rows), mode="append")
            elif act == "merge" and rows:
                merging = DeltaTable(table).merge(
                    as_table(rows), "s.id = t.id", source_alias="s", target_alias="t"
                )
                merging.when_matched_update_all().when_not_matched_insert_all().execute()
            elif rows:
                DeltaTable(table).delete(f"id IN ({', '.join(map(str, rows))})")
        self.held |= came | merged
        for one in gone:
            del self.held[one]

    @staticmethod
    def _another(draw: Random, row: Row) -> Row:
        moved = timedelta(minutes=draw.choice((0, 0, 3, -25)))
        return {**row, "at": row["at"] + moved, "key": draw.choice((row["key"], "a"))}


def as_table(rows: dict[int, Row]) -> pa.Table:
    return pa.Table.from_pylist([{"id": one, **row} for one, row in rows.items()], SCHEMA)


@each_kind
def test_random_changes_of_a_table_of_others_are_followed(
    spark: SparkSession, tmp_path: Path, kind: Kind
) -> None:
    place, draw = FollowedPlace(tmp_path / "root", kind=kind), Random(kind.name)
    place.root.mkdir()
    others: list[Row] = []
    for number, new in enumerate(landings_of(kind, draw.randint(0, 99), RUNS)):
        left, right = sides(new)
        place.change(draw, left)
        place.land_rows(f"{number}.json", right)
        others += right
        succeed(spark, place, f"run-{number}")
        check_gold(place, [*place.held.values(), *others])
    assert place.table(place.places.retracted).num_rows
    assert audit(spark, place).outcome == "equal"
