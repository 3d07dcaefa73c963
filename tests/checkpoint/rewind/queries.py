"""Queries that write to a real sink, a file of input a batch, and commands on their checkpoints."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from tests.checkpoint.archives import land
from tidemark.cli.main import app

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import DataFrame, SparkSession

    from tests.checkpoint.make_checkpoints import Kind

# Minutes of the rows of a file, from its own ten minutes on. The last row is late; the one before
# it only where the watermark of the file before has been applied.
_MINUTES = (0, 3, 6, 9, -15, -25)
SCHEMA = "at timestamp, key string, amount long"


def rows(number: int) -> list[dict[str, Any]]:
    """Six rows of file `number`, two of them late."""
    first = 60 + number * 10
    times = [divmod(first + minute, 60) for minute in _MINUTES]
    return [
        {
            "at": f"2026-07-01T{9 + hour:02}:{minute:02}:00",
            "key": f"k{at % 2}",
            "amount": 10**at + number,
        }
        for at, (hour, minute) in enumerate(times)
    ]


@dataclass
class Query:
    """A query over files with a sink: `delta`, `parquet`, or none (noop)."""

    spark: SparkSession
    folder: Path
    kind: Kind
    sink: str
    a_batch: int = 1
    conf: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spark = self.spark.newSession()
        for name, value in ({"spark.sql.shuffle.partitions": "2"} | self.kind.conf).items():
            self.spark.conf.set(name, value)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def said(self) -> str:
        """What `--sink` says of it."""
        return {"delta": f"delta:{self.out}", "parquet": f"files:{self.out}"}[self.sink]

    def rows(self) -> DataFrame:
        """What the kinds of `make_checkpoints` read."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self.a_batch)
        return reader.json(str(self.folder / "input"))

    def timed(self) -> DataFrame:
        return self.rows().withWatermark("at", "5 minutes")

    def land(self, *numbers: int) -> None:
        for number in numbers:
            file = land(self.folder / "input", number, rows(number))
            # The source takes files in the order of their times.
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    def run(self) -> None:
        """One run to the end of what there is."""
        query: Any = self.kind.query(self)  # type: ignore[arg-type]  # it reads as a Place does
        writer = query.writeStream.format(self.sink).option("path", str(self.out))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def table(self) -> list[Any]:
        """The sink's rows, in order."""
        found = self.spark.read.format(self.sink).load(str(self.out)).collect()
        return sorted(map(repr, found))

    def batches(self) -> list[int]:
        """Those that are committed."""
        commits = (self.checkpoint / "commits").iterdir()
        return sorted(int(path.name) for path in commits if path.name.isdecimal())


def command(*arguments: str | Path) -> Result:
    """`tidemark checkpoint …`."""
    return CliRunner().invoke(app, ["checkpoint", *map(str, arguments)])


def told(*arguments: str | Path) -> dict[str, Any]:
    """The document of a command."""
    result = command(*arguments, "--json")
    assert result.stdout, result.output
    (document,) = json.loads(result.stdout)
    return dict(document)


def undo(backup: str | Path, checkpoint: Path, sink: str = "other") -> tuple[str | Path, ...]:
    """The command that restores a backup, with what it changes."""
    return "restore", backup, "--checkpoint", checkpoint, "--sink", sink


def done(*arguments: str | Path) -> dict[str, Any]:
    """The document of a command that acts, and must."""
    result = command(*arguments, "--apply", "--json")
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    assert document["applied"], document
    return dict(document)
