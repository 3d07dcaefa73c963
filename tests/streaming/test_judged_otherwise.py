"""A batch whose accepted rows are in bronze, and that is judged otherwise when it is repeated: it
stops, so that no row comes into both tables, or into none. Ingest's own code, without a JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql.pandas.types import to_arrow_schema

from tests.kit.killed import Killed, killed
from tests.kit.running import Place, clicks
from tidemark.errors import LedgerUnbalanced
from tidemark.judge.rules import rules_of
from tidemark.ledger.lines import ingest_lines
from tidemark.runs.run import Run
from tidemark.sources.kinds import row_origin
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.ingest import Ingest, _write_batch
from tidemark.streaming.ingest.judged_lines import accepted_columns
from tidemark.streaming.ingest.judged_slices import BatchRules
from tidemark.streaming.schemas import rejects_schema
from tidemark.streaming.sources.streams import streamed_source

BATCH_MS = 1_782_900_000_000
# Of these the last one is no row; the second is none where `amount` is an int.
AMOUNTS = (1, 3_000_000_000, "x")


def content(kind: str) -> dict[str, Any]:
    made = clicks()
    columns = {**made["source"]["columns"], "amount": kind}
    return {**made, "source": {**made["source"], "columns": columns}}


@dataclass
class Begun:
    """A pipeline with one file, which its ingest's first batch is to read."""

    root: Path

    def __post_init__(self) -> None:
        self.place = Place(self.root, content("long"))
        self.run = Run(self.place.pipeline, self.place.settings, "run", 0)
        self.file = self.root / "landing" / "a.json"
        self.file.parent.mkdir()

    def write(self, *amounts: Any) -> None:
        rows = ({"at": "2026-07-01T10:00:00Z", "key": "k", "amount": one} for one in amounts)
        self.file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def plan(self) -> None:
        """A checkpoint as Spark leaves it with a batch that is planned, and empty tables."""
        folder = Path(self.run.ingest_checkpoint().uri)
        modified = self.file.stat().st_mtime_ns // 1_000_000
        entry = {"path": self.file.as_uri(), "timestamp": modified, "batchId": 0}
        offsets = {"batchWatermarkMs": 0, "batchTimestampMs": BATCH_MS, "conf": {}}
        files: Mapping[str, str] = {
            "metadata": json.dumps({"id": "11111111-2222-3333-4444-555555555555"}),
            "sources/0/0": f"v1\n{json.dumps(entry)}",
            "offsets/0": f'v1\n{json.dumps(offsets)}\n{{"logOffset":0}}',
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        origin = row_origin(self.place.pipeline)
        rules = BatchRules(rules_of(self.place.pipeline), origin, 0, 0, 1, False, False)
        tables = self.run.warehouse
        columns = Schema.from_arrow(accepted_columns(rules))
        DeltaTable.create(tables.bronze.uri, columns, partition_by=["_event_date"])
        columns = Schema.from_arrow(to_arrow_schema(rejects_schema(origin), timezone="UTC"))
        DeltaTable.create(tables.rejects.uri, columns)

    def judge(self, kind: str = "long") -> None:
        """The batch, by an `amount` of this kind."""
        rules = rules_of(Place(self.root, content(kind)).pipeline)
        checkpoint, tables = self.run.ingest_checkpoint(), self.run.warehouse
        source, own = streamed_source(self.run.source), (tables.bronze, tables.rejects)
        batch = Batch(
            *(self.place.pipeline, rules, source, checkpoint, *own, 0, BATCH_MS, 1_000_000)
        )
        ingest = Ingest(self.place.pipeline, source, *own, checkpoint, 0, "run")
        _write_batch(None, ingest, batch)  # type: ignore[arg-type]  # nothing here needs it

    @property
    def rejected(self) -> int:
        return int(DeltaTable(self.run.warehouse.rejects.uri).to_pyarrow_dataset().count_rows())


@pytest.fixture
def begun(tmp_path: Path) -> Begun:
    return Begun(tmp_path)


@pytest.mark.parametrize(("first", "then"), [("long", "int"), ("int", "long")])
def test_other_rules_for_the_same_rows_stop_the_repeat(begun: Begun, first: str, then: str) -> None:
    begun.write(*AMOUNTS)
    begun.plan()
    with pytest.raises(Killed), killed("after", "accepted rows"):
        begun.judge(first)
    for _ in range(2):
        with pytest.raises(LedgerUnbalanced, match="Batch 0 of clicks was begun by a run that"):
            begun.judge(then)
    assert begun.rejected == 0
    # As it was, it is finished.
    begun.judge(first)
    tables, query = begun.run.warehouse, str(begun.run.ingest_checkpoint().query_id())
    (line,) = ingest_lines(tables.bronze.existing(), tables.rejects.existing(), query, -1)
    assert (line.read, line.difference) == (3, 0)


@pytest.mark.parametrize(
    "now", [(1, 100, "x"), (1,), ("y", "x", 100)], ids=["more", "fewer", "as many others"]
)
def test_a_file_that_was_written_again_under_its_former_time_stops_the_repeat(
    begun: Begun, now: tuple[Any, ...]
) -> None:
    begun.write(100, "x", "y")
    begun.plan()
    stat = begun.file.stat()
    with pytest.raises(Killed), killed("after", "accepted rows"):
        begun.judge()
    begun.write(*now)
    os.utime(begun.file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(LedgerUnbalanced, match="written again under its former time"):
        begun.judge()
    assert begun.rejected == 0
