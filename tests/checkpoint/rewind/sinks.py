"""Committed checkpoints of Spark with a sink beside them that has their batches."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.checkpoint.archives import answers, land_listed, unpack

BASE = "4.2.0/aggregate-hdfs"
# Eight batches, of which every other one only applies a watermark.
LAST = 7


@dataclass(frozen=True)
class WithSinks:
    """`folder` has a checkpoint, a Delta table, and the output of a file sink with its log."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def query_id(self) -> str:
        return str(answers(BASE)["id"])

    def sink(self, kind: str) -> str:
        return f"delta:{self.table}" if kind == "delta" else f"files:{self.out}"

    def rows(self) -> list[int]:
        """The batches that the Delta table has rows of."""
        rows = pa.table(DeltaTable(self.table).to_pyarrow_table())
        return sorted(rows.column("batch").to_pylist())

    def transaction(self) -> int | None:
        return DeltaTable(self.table).transaction_version(self.query_id)

    def append(self, batch: int, query_id: str | None = None) -> None:
        """A batch of the query, or of another one."""
        append(self.table, batch, query_id or self.query_id)

    def keep(self) -> None:
        shutil.copytree(self.folder, self._kept)

    def again(self) -> WithSinks:
        """All as it was kept, where it was: places stand in checkpoints and backups."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._kept, self.folder)
        return self

    @property
    def _kept(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-kept")


def append(table: Path, batch: int, query_id: str) -> None:
    properties = CommitProperties(app_transactions=[Transaction(query_id, batch)])
    rows = pa.table({"batch": pa.array([batch], pa.int64())})
    write_deltalake(table, rows, mode="append", commit_properties=properties)


def with_sinks(folder: Path, base: str = BASE) -> WithSinks:
    """An unpacked checkpoint, and sinks that have all of its batches."""
    made = WithSinks(folder)
    land_listed(unpack(base, folder))
    log = made.out / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(LAST + 1):
        append(made.table, batch, str(answers(base)["id"]))
        path = made.out / f"part-{batch}.parquet"
        path.write_bytes(b"rows")
        entry = {"path": path.as_uri(), "size": 4, "action": "add"}
        (log / str(batch)).write_text(f"v1\n{json.dumps(entry)}")
    return made


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
