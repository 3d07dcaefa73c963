"""A column that becomes wider: each kind of table begins a generation with it, and goes on."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import clicks, quiet, run_warm, succeed
from tests.operators.contract.kinds import (
    KINDS,
    TABLE,
    Kind,
    KindPlace,
    event,
    landings_of,
    of,
)
from tests.streaming.audits import audit
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import FoldTable, Pipeline
from tidemark.runs.contract.recorded import column_types
from tidemark.runs.requests import MigrationRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _known_to_spark() -> None:
    importlib.import_module("tests.operators.contract.streamed_stretches")


@dataclass
class TypedPlace(KindPlace):
    """A place whose column `amount` is of a type."""

    amount: str = field(default="int")

    @property
    def pipeline(self) -> Pipeline:
        made = super().pipeline
        source = clicks()["source"]
        source["columns"]["amount"] = self.amount
        typed = pipeline_from_mapping(made.name, {**self.content, "source": source})
        return made.model_copy(update={"source": typed.source})


def migrate(spark: SparkSession, place: TypedPlace, run_id: str) -> None:
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.migrate import migrate_once

    result = migrate_once(
        JobAct(
            place.run(run_id, trigger="migration"),
            MigrationRequest(pipeline=place.name, table=TABLE),
            quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
        )
    )
    assert result.error is None, result.error
    assert result.generation is not None


@pytest.mark.parametrize(
    "name",
    [
        name if name == "windows-update" else pytest.param(name, marks=pytest.mark.long)
        for name in KINDS
    ],
)
def test_rows_of_before_and_of_after_make_one_table(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    kind: Kind = KINDS[name]
    place = TypedPlace(tmp_path, kind=kind)
    rows = []
    types = ["int", "long", "decimal(20,0)", "decimal(22,2)"]
    types = types[:2] if isinstance(kind.table, FoldTable) else types
    landed = landings_of(kind, 5, len(types) + 1)
    for number, (amount, more) in enumerate(zip([*types, types[-1]], landed, strict=True)):
        if amount != place.amount:
            place.amount = amount
            refused = run_warm(spark, place, f"refused-{number}").error
            assert refused is not None
            assert refused.type == "PipelineChanged"
            place.change_lookups()
            migrate(spark, place, f"migrate-{number}")
            assert column_types(place.warehouse.bronze.existing())["amount"] == amount
            assert audit(spark, place).outcome == "equal"
        rows += more
        place.land_rows(f"{number}.json", more)
        succeed(spark, place, f"run-{number}")
        assert audit(spark, place).outcome == "equal"
    far = [event(10_000, "z"), *([of(10_000, "z")] if kind.joins else [])]
    place.land_rows("far.json", far)
    succeed(spark, place, "far")
    # Also what a far row closes.
    succeed(spark, place, "again")
    found = {identity: values for identity, values in place.known().items() if identity[1] != "z"}
    assert found == place.model(rows)
