"""Judge lines and read the verdicts as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tests.kit.running import clicks
from tidemark.judge.judge import Judge
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline

BATCH_TIME = datetime(2026, 11, 18, 11, 6, 40, tzinfo=UTC)


def pipeline_of(
    columns: Mapping[str, Any],
    unknown_fields: str = "keep",
    derive: Mapping[str, str] | None = None,
    keep: str | None = None,
    rules: Sequence[Mapping[str, str]] = (),
    **event_time: Any,
) -> Pipeline:
    """A pipeline with the event time in `at` and ten minutes of watermark delay."""
    source = {
        "files": "landing/*.json*",
        "columns": {"at": "timestamp", **columns},
        "event_time": {"column": "at", **event_time},
        "derive": dict(derive or {}),
        "unknown_fields": unknown_fields,
        "rules": list(rules),
    }
    table = {"window": {"length": "10 minutes"}, "measures": {"rows_seen": "count(*)"}}
    content = clicks(source=source, tables={"all": table}, keep=keep)
    return pipeline_from_mapping("judged", content)


def judge_lines(
    pipeline: Pipeline,
    lines: Sequence[str | bytes],
    by_line: bool = False,
    batch_time: datetime = BATCH_TIME,
    numbers_in_text: bool = True,
) -> list[dict[str, Any]]:
    """The verdict on each line, in order: reason and detail, or the columns that are not null."""
    rules = rules_of(pipeline)
    rules = rules if numbers_in_text else rules.without_numbers_in_text()
    judge = Judge(rules, int(batch_time.timestamp() * 1_000), by_line)
    data = [line if isinstance(line, bytes) else line.encode() for line in lines]
    judged = judge.judge(pa.array(data, pa.binary()))
    judged.accepted.validate(full=True)
    places = [*judged.accepted_at.to_pylist(), *judged.rejected_at.to_pylist()]
    assert sorted(places) == list(range(len(lines)))
    rows = [*judged.accepted.to_pylist(), *judged.rejected.to_pylist()]
    verdicts = [row for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])]
    return [{name: value for name, value in row.items() if value is not None} for row in verdicts]
