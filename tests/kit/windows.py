"""A table of a pipeline without its stream: tests append to `changes`, and publish to gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from pyspark.sql import types as T

from tidemark.gold.pins import TableResult
from tidemark.gold.plan import GENERATION
from tidemark.gold.publish import publish_table
from tidemark.gold.published import publish_note
from tidemark.gold.state import gold_state
from tidemark.operators.windows.windows import Windows as WindowOperator
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.notes import RecomputedNote, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import Fence, unfenced
from tidemark.streaming.schemas import changes_schema, gold_schema

Row = dict[str, Any]
LENGTH = timedelta(minutes=10)


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    return datetime(2026, 7, day, hour, minute, tzinfo=UTC)


def millis(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@dataclass
class Windows:
    """`changes` and gold of one table, made as a run makes them, in a folder of their own."""

    folder: Path
    keys: Mapping[str, T.DataType] = field(default_factory=lambda: {"key": T.StringType()})
    measures: Mapping[str, T.DataType] = field(default_factory=lambda: {"total": T.LongType()})

    def __post_init__(self) -> None:
        times = {"window_start": T.TimestampType(), "window_end": T.TimestampType()}
        columns = {**times, **self.keys, **self.measures, "rows": T.LongType()}
        aggregated = T.StructType([T.StructField(n, kind) for n, kind in columns.items()])
        gold = gold_schema(aggregated, {}).json()
        self._changes_json = changes_schema(aggregated).json()
        spec = TableSpec(gold, ("window_date",), transactions={GENERATION: 1})
        ensure_table(TablePlace(self.gold_uri), spec)
        properties = {"delta.enableChangeDataFeed": "true"}
        history = TableSpec(self._changes_json, properties=properties)
        ensure_table(TablePlace(self.changes_uri), history)

    @property
    def gold_uri(self) -> str:
        return str(self.folder / "gold")

    @property
    def changes_uri(self) -> str:
        return str(self.folder / "changes")

    @property
    def operator(self) -> WindowOperator:
        measures = {name: f"sum({name})" for name in self.measures}
        table = WindowTable(
            window=Window(length=LENGTH, slide=LENGTH),
            group_by=tuple(self.keys),
            measures=measures,
        )
        return WindowOperator("at", table)

    def changes_schema(self) -> pa.Schema:
        """The columns of `changes`."""
        return pa.schema(Schema.from_json(self._changes_json).to_arrow())

    def change(
        self, *windows: Row, cause: str = "stream", batch: int | None = 0, run: str = "run"
    ) -> int:
        """One batch of the stream, or a repair, appends these windows; the version it made."""
        schema = self.changes_schema()
        constant = {"cause": cause, "generation": 1, "run": run, "batch": batch}
        rows = pa.Table.from_pylist([row | constant for row in windows], schema)
        # Without a note it would be a change by hand.
        note = CommitProperties(custom_metadata=as_metadata(RecomputedNote(cause=cause, run=run)))
        write_deltalake(self.changes_uri, rows, mode="append", commit_properties=note)
        return DeltaTable(self.changes_uri).version()

    def pin(
        self, close: datetime | None, changes: int | None = None, bronze: int = 1
    ) -> TableResult:
        """What a run that ends now would pin."""
        newest = DeltaTable(self.changes_uri).version()
        return TableResult(
            generation=1,
            changes=newest if changes is None else changes,
            inputs={"bronze": bronze},
            windows_changed=0,
            watermark_before_ms=0,
            watermark_after_ms=0,
            close_before_ms=gold_state(self.gold_table()).close_ms,
            close_after_ms=millis(close) if close else 0,
        )

    def publish(
        self,
        pinned: TableResult,
        run_id: str = "run",
        trigger: str | None = None,
        fence: Fence = unfenced,
        began: datetime | None = None,
    ) -> TableResult:
        """`fence` is asked between the reading of gold and the commit."""
        note = publish_note(run_id, began or at(12), trigger)
        gold, changes = TablePlace(self.gold_uri, fence=fence), TablePlace(self.changes_uri)
        return publish_table(self.operator, pinned, gold, changes, note)

    def publish_at(self, close: datetime | None, run_id: str = "run") -> TableResult:
        """Publish all that stands in changes, with this close frontier."""
        return self.publish(self.pin(close), run_id)

    def gold_table(self) -> DeltaTable:
        return DeltaTable(self.gold_uri)

    def gold(self, *columns: str) -> list[tuple[Any, ...]]:
        """Gold's rows, ordered by window and keys, as tuples of these columns."""
        rows = pa.table(self.gold_table().to_pyarrow_table()).to_pylist()
        rows.sort(key=lambda row: (row["window_start"], *[repr(row[key]) for key in self.keys]))
        return [tuple(row[name] for name in columns) for row in rows]


def window(start: datetime, rows: int = 1, **values: Any) -> Row:
    """A changed window of ten minutes."""
    return {"window_start": start, "window_end": start + LENGTH, "rows": rows, **values}


def files_by_date(gold: DeltaTable) -> dict[str, Sequence[str]]:
    """Gold's data files, by the date of their partition."""
    found: dict[str, list[str]] = {}
    for uri in sorted(gold.file_uris()):
        found.setdefault(uri.split("window_date=")[1].split("/")[0], []).append(uri)
    return dict(found)
