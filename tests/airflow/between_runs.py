"""Pipelines whose checkpoints are copies of real ones, and what was recorded of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.checkpoint.damaged import DATA


def checkpoints_of(root: Path, ingest: str, table: str) -> None:
    """Put two of the real checkpoints into the pipeline `visits`."""
    checkpoints = root / "visits/checkpoints"
    shutil.copytree(DATA / ingest, checkpoints / "ingest")
    shutil.copytree(DATA / table, checkpoints / "page_1h/1")


def upkeep_rows(root: Path) -> list[dict[str, Any]]:
    """All of `ops/upkeep`, in the order of time and checkpoint."""
    table = DeltaTable(str(root / "visits/ops/upkeep")).to_pyarrow_dataset().to_table()
    return sorted(table.to_pylist(), key=lambda row: (row["time"], str(row["checkpoint"])))
