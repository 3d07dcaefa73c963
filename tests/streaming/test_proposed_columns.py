"""The ingest accepts the rows of a sample, with the columns that are proposed for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.judge.judging import judge_lines
from tests.kit.running import Place, clicks, succeed
from tidemark.cli.new.pipeline_text import pipeline_text
from tidemark.cli.new.places import find_files
from tidemark.cli.new.proposal import propose
from tidemark.cli.new.sample import Sample
from tidemark.pipeline.load import pipeline_from_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: dict[str, list[Any]] = {
    "long": [0, -(2**63), 2**63 - 1, None],
    "wide": [2**63, 1, -(10**38) + 1, None],
    "double": [1, 1.5, 1e300, 2**70],
    "huge": [10**40, 1, -(10**50), None],
    "boolean": [True, False, None, True],
    "string": ["", "1", "true", "né\n\"\\"],
    "zoned": ["2026-03-01T10:00:00Z", "2026-03-01 10:00+02", "2026-03-01T10:00:00.123456789-0530",
              "1900-01-01T00:00Z"],
    "local": ["2026-03-01T10:00:00", "2026-03-01", "24:00", None],
    "day": ["2026-02-28", "1900-01-01", "9998-12-31", None],
    "array": [[1, 2.5], [], [None], None],
    "struct": [{"a": 1, "b": {"c": ["x"]}}, {}, {"b": None}, {"b": {}}],
    "mixed": [1, "x", None, [1]],
    "größe": [1, 2, 3, 4],
    "a-b": ["x", "y", None, "x"],
}  # fmt: skip
TIMES: list[list[Any]] = [
    ["2026-03-01T10:00:00Z", "2026-03-01 10:00+02", "2026-03-01T10:00:00.5-0530",
     "1970-01-02T00:00Z"],
    ["2026-03-01T10:00:00", "2026-03-01 10:00", "2026-03-01T10:00:00Z", "2026-03-01"],
    ["01/Mar/2026:10:00:00 +0100"] * 4,
    ["2026/03/01 10:00:00"] * 4,
    ["01.03.2026 10:00:00"] * 4,
    [1_772_000_000, 1_772_000_000.25, 946_684_800, 1_772_000_001],
    [1_772_000_000_123, 946_684_800_000] * 2,
    [1_772_000_000_123_456, 946_684_800_000_000] * 2,
]  # fmt: skip


def verdicts(columns: dict[str, list[Any]]) -> list[tuple[str | None, str | None]]:
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    text = pipeline_text(
        propose(Sample(tuple(rows), len(rows), lambda _: []), "at"), {"files": "landing/x/*.json*"}
    )
    judged = judge_lines(
        pipeline_from_text("orders", text, "orders.yaml"), list(map(json.dumps, rows))
    )
    return [(row.get("reason"), row.get("detail")) for row in judged]


def test_each_type_takes_the_values_that_it_was_proposed_for() -> None:
    assert verdicts({"at": TIMES[0], **COLUMNS}) == [(None, None)] * 4


def test_each_format_of_event_time_takes_the_values_that_it_was_proposed_for() -> None:
    for times in TIMES:
        assert verdicts({"at": times}) == [(None, None)] * 4, times


def test_a_run_reads_a_source_that_is_named_outside_of_its_root(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root", sources=(str(tmp_path / "my dätä"),))
    file = Place(tmp_path).land("1.json", [{"at": TIMES[0][0]}, {"at": TIMES[0][1]}], "my dätä")
    found = find_files(str(file), place.settings, place.name)
    assert found.source == f"file://{tmp_path}/my dätä/*.json*"
    place.content = clicks(source=clicks()["source"] | {"files": found.source})
    assert succeed(spark, place).rows.accepted == 2
