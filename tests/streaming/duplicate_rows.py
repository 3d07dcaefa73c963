"""Decide duplicates in the shared session, and by brute force in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Source
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.sources.source import ordering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 7, 1, tzinfo=UTC)
FILE = ordering(FilesSourceHandle.origin)
JUDGED = "_value string, _file string, _position bigint, at timestamp, id string, _reason string"


@dataclass(frozen=True, order=True)
class Row:
    """A row that is accepted so far; the order is the one in which rows are decided."""

    seconds: float
    file: str
    text: str
    id: str | None

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)


Reference = tuple[str, float]
Verdicts = list[tuple[Row, Reference | None]]


def unique_source(within: str, by: str = "id") -> Source:
    """A source of ids and event times (`at`), unique within a horizon."""
    source = clicks()["source"] | {
        "columns": {"at": "timestamp", "id": "string"},
        "unique": {"by": by, "within": within},
    }
    table = {"window": {"length": "10 minutes"}, "measures": {"events": "count(*)"}}
    return pipeline_from_mapping("u", clicks(source=source, tables={"all": table})).source


def decide(
    spark: SparkSession, rows: Sequence[Row], before: Iterable[Row], source: Source
) -> list[dict[str, Any]]:
    """The rows as they leave `reject_duplicates`, in the order in which they came."""
    from pyspark.sql import functions as F

    from tidemark.streaming.ingest import duplicates as d

    unique = source.unique
    assert unique is not None
    data = [(r.text, r.file, n, r.at, r.id, None) for n, r in enumerate(rows)]
    judged = spark.createDataFrame(data, JUDGED).withColumn("_detail", F.lit(None).cast("string"))
    bronze = spark.createDataFrame(
        [(r.file, r.at, r.id) for r in before], "_file string, at timestamp, id string"
    )
    accepted = d.accepted_rows_of(bronze, source, unique, FILE)
    contested = d.contested_ids(judged, accepted, source, unique, FILE).localCheckpoint()
    found = d.find_duplicates(judged, contested, source, unique, FILE)
    decided = d.reject_duplicates(judged, found, unique, FILE)
    named = decided.withColumnsRenamed({"_reason": "reason", "_detail": "detail"})
    rejected = named.toArrow().to_pylist()
    assert len(rejected) == len(rows)
    return sorted(rejected, key=lambda row: row["_position"])


def verdicts_of(rows: Sequence[Row], decided: Sequence[dict[str, Any]]) -> Verdicts:
    """Each row with what it repeats, in a fixed order (copies of a line cannot be told apart)."""
    found = [(row, _reference(verdict)) for row, verdict in zip(rows, decided, strict=True)]
    return sorted(found, key=repr)


def _reference(verdict: dict[str, Any]) -> Reference | None:
    repeats = verdict["_repeats"]
    assert (repeats is None) == (verdict["reason"] is None) == (verdict["detail"] is None)
    if repeats is None:
        return None
    assert verdict["reason"] == "duplicate"
    return repeats["file"], (repeats["event_time"] - BEGIN).total_seconds()


def brute_force(rows: Sequence[Row], before: Iterable[Row], within: float) -> Verdicts:
    """The same by comparing every row with every accepted row of its id."""
    accepted = list(before)
    kept: list[Row] = []
    repeating: list[Row] = []
    for row in sorted(rows, key=lambda r: (r.seconds, r.file, r.text)):
        if row.id is not None and _near(row, [*accepted, *kept], within):
            repeating.append(row)
        else:
            kept.append(row)
    references = [
        min(_near(row, [*accepted, *kept], within), key=lambda o, r=row: _rank(r, o))  # type: ignore[misc]
        for row in repeating
    ]
    found: Verdicts = [(row, None) for row in kept]
    found += [(row, (r.file, r.seconds)) for row, r in zip(repeating, references, strict=True)]
    return sorted(found, key=repr)


def accepted_of(verdicts: Verdicts) -> list[Row]:
    return [row for row, reference in verdicts if reference is None]


def _near(row: Row, others: Iterable[Row], within: float) -> list[Row]:
    return [o for o in others if o.id == row.id and abs(o.seconds - row.seconds) <= within]


def _rank(row: Row, other: Row) -> tuple[float, float, str]:
    return abs(other.seconds - row.seconds), other.seconds, other.file
