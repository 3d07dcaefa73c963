"""What a table's commits say of themselves."""

from __future__ import annotations

from deltalake import DeltaTable


def rows_appended(table: DeltaTable, after_version: int) -> int:
    """Rows that Spark appended in the commits after a version, by the commits' own metrics."""
    table.update_incremental()
    newer = table.version() - after_version
    commits = table.history(newer) if newer > 0 else []
    metrics = [commit.get("operationMetrics", {}) for commit in commits]
    return sum(int(metric.get("numOutputRows", 0)) for metric in metrics)
