"""Joins in plain Python, and a second bronze beside the first."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.late_model import EPOCH
from tests.kit.running import SCHEDULED, Place
from tidemark.operators.operator import InputTable
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import JoinTable, Pipeline
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows

Row = dict[str, Any]
OTHER = "orders"
RIGHT = "right"


# The other pipeline's file: its columns have other names than the first one's.
PARTNER: dict[str, Any] = {
    "source": {
        "files": "landing_orders/*.json*",
        "columns": {"ordered": "timestamp", "id": "string", "cost": "long not null"},
        "event_time": {"column": "ordered"},
    },
    "watermark": {"delay": "5 minutes"},
    "tables": {"hourly": {"window": {"length": "1 hour"}}},
}


def partner_pipeline(delay: str = "5 minutes") -> Pipeline:
    return pipeline_from_mapping(OTHER, {**PARTNER, "watermark": {"delay": delay}})


def join_table(
    kind: str,
    before: int = 0,
    after: int = 7,
    length: int = 10,
    slide: int | None = None,
    group_by: Sequence[str] = ("key",),
    offset: int = 0,
) -> JoinTable:
    window = {"length": length, "slide": slide or length, "offset": offset}
    return JoinTable.model_validate(
        {
            "join": {
                "with": OTHER,
                "on": {"key": "id"},
                "within": {"before": f"{before} minutes", "after": f"{after} minutes"},
                "type": kind,
            },
            "window": {name: f"{minutes} minutes" for name, minutes in window.items()},
            "group_by": list(group_by),
            "measures": {"amount": "sum(amount)", "cost": f"sum({OTHER}.cost)"},
        }
    )


def sides(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    left = [row for row in rows if row.get("side") != RIGHT]
    return left, [row for row in rows if row.get("side") == RIGHT]


def joins(table: JoinTable) -> Callable[[Sequence[Row]], dict[tuple[Any, ...], tuple[Any, ...]]]:
    """What one batch over all rows gives: by window and keys its end, amount, cost, matches and
    rows."""
    length, slide = table.window.length, table.window.slide
    low, high = -table.join.within.before, table.join.within.after
    first = EPOCH + table.window.offset

    def model(rows: Sequence[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found: defaultdict[tuple[Any, ...], list[tuple[int, int | None]]] = defaultdict(list)
        left, right = sides(rows)
        for row in left:
            matching = [
                other["amount"]
                for other in right
                if row["key"] is not None
                and other["key"] == row["key"]
                and low <= other["at"] - row["at"] <= high
            ]
            pairs: list[int | None] = list(matching)
            if not pairs and table.join.type == "left":
                pairs = [None]
            start = first + (row["at"] - first) // slide * slide
            while pairs and start + length > row["at"]:
                keys = [row[key] for key in table.group_by]
                found[(start, *keys)] += [(row["amount"], cost) for cost in pairs]
                start -= slide
        return {
            identity: (
                identity[0] + length,
                sum(amount for amount, _ in held),
                sum(costs) if (costs := [cost for _, cost in held if cost is not None]) else None,
                len([cost for _, cost in held if cost is not None]),
                len(held),
            )
            for identity, held in found.items()
        }

    return model


class PartnerPlace(Place):
    """The other pipeline below the same root. Its bronze is written as its ingest would, without a
    run of it."""

    @property
    def pipeline(self) -> Pipeline:
        return partner_pipeline()

    def make(self) -> None:
        fields = [
            {"name": name, "type": kind, "nullable": name != "cost", "metadata": {}}
            for name, kind in (
                ("ordered", "timestamp"),
                ("id", "string"),
                ("cost", "long"),
                ("_event_date", "date"),
                ("_batch", "long"),
            )
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        ensure_table(self.warehouse.bronze, TableSpec(schema, ("_event_date",)))

    def append(self, rows: Sequence[Row]) -> None:
        """A batch of ingest; none where there is no row."""
        if not rows:
            return
        table = self.warehouse.bronze.existing()
        batch = table.version()
        columns = {
            "ordered": pa.array([row["at"] for row in rows], pa.timestamp("us", "UTC")),
            "id": pa.array([row["key"] for row in rows], pa.string()),
            "cost": pa.array([row["amount"] for row in rows], pa.int64()),
            "_event_date": pa.array([row["at"].date() for row in rows], pa.date32()),
            "_batch": pa.array([batch] * len(rows), pa.int64()),
        }
        counts = Rows(read=len(rows), accepted=len(rows), rejected={})
        note = IngestNote(
            query="orders", batch=batch, rows=counts, scheduled_ms=epoch_ms(SCHEDULED)
        )
        properties = CommitProperties(custom_metadata=as_metadata(note))
        append_rows(table, pa.table(columns), "orders", properties)


@contextmanager
def both_bronzes(*parts: Sequence[Row]) -> Iterator[tuple[DeltaTable, TablePlace, InputTable]]:
    """Both bronzes, with a version of each for each part; version 0 is empty."""
    with TemporaryDirectory() as folder:
        places = [TablePlace(f"{folder}/{name}", {}) for name in ("left", "right")]
        schemas = [
            pa.schema([("at", pa.timestamp("us", "UTC")), ("key", pa.string())]),
            pa.schema([("ordered", pa.timestamp("us", "UTC")), ("id", pa.string())]),
        ]
        for place, schema in zip(places, schemas, strict=True):
            dated = schema.append(pa.field("_event_date", pa.date32()))
            DeltaTable.create(place.uri, schema=dated, partition_by=["_event_date"])
            for part in parts:
                side = sides(part)[places.index(place)]
                columns = [
                    pa.array([row["at"] for row in side], schema.field(0).type),
                    pa.array([row["key"] for row in side], pa.string()),
                    pa.array([row["at"].date() for row in side], pa.date32()),
                ]
                write_deltalake(place.uri, pa.table(columns, schema=dated), mode="append")
        left, right = (DeltaTable(place.uri) for place in places)
        yield left, places[0], InputTable(right, places[1])
