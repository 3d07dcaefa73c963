"""A query of the kinds that checkpoints are made of, run here as often as a test wants."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tests.checkpoint.make_checkpoints import SCHEMA, STATE, Place

# A store that is unloaded is written whole at every other version.
UNLOAD = {f"{STATE}unloadOnCommit": "true", f"{STATE}minDeltasForSnapshot": "2"}
MINUTES = "2026-07-01T10:{:02}:00"
ROWS = 6


@dataclass
class Made(Place):
    """Where a query's input and checkpoint lie."""

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def land(self, number: int) -> None:
        """Six rows of ten more minutes, whose keys repeat."""
        folder = self.folder / "input"
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            {"at": MINUTES.format(number * 10 + row), "key": f"k{row % 3}", "amount": row}
            for row in range(ROWS)
        ]
        (folder / f"{number}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def rows(self) -> DataFrame:
        """A batch takes a file."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "input"))

    def run(self, query: DataFrame, mode: str) -> Any:
        """One run to the end of what there is; its last progress."""
        writer = query.writeStream.outputMode(mode).format("noop")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        started = writer.trigger(availableNow=True).start()
        started.awaitTermination()
        return started.lastProgress
