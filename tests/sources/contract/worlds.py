"""A harness for each kind of source: a root with a pipeline of the kind, and ways to land rows in
its source and to lose them. To add a kind, add its world."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from broker.broker import Broker
from tests.kit.formats import avro_bytes, record
from tests.kit.kafka import delete_records, delete_topic, ends, make_topic, new_name, produce
from tests.kit.running import Place, clicks
from tests.sources.contract.numbered_log import ENDS
from tidemark.sources.kinds import row_origin
from tidemark.sources.source import ordering
from tidemark.upkeep.accept_changes import accept_changes

Row = Mapping[str, Any] | str
# The values of the origin's columns, in their order.
Where = tuple[Any, ...]


class World(ABC):
    """One pipeline's source. `part` names what is landed and lost together: "0", "1" …

    `stops_at_losses`: what is lost has to be accepted before a run goes on.
    `lost` is the reason of the reject for a part that vanished before it was read, `lost_since`
    after bronze took its rows.
    """

    lost: ClassVar[str]
    lost_since: ClassVar[str]
    stops_at_losses: ClassVar[bool] = False
    # The same kind of place, elsewhere.
    elsewhere: ClassVar[dict[str, Any]]

    def __init__(self, root: Path, **source: Any) -> None:
        common = {k: v for k, v in clicks()["source"].items() if k != "files"}
        self.place = Place(root, clicks(source={**self.named(), **common, **source}))

    @abstractmethod
    def named(self) -> dict[str, Any]:
        """What `source` says of where rows come from."""

    def raw(self, row: Row) -> str:
        """A row that was landed, as a reject has it."""
        return text(row)

    def whole(self, where: Where) -> Where:
        """Where the reject comes from that stands for a whole part, by its first row."""
        return where

    def settle(self) -> None:  # noqa: B027
        """Accept what was lost, where runs stop at it."""

    @abstractmethod
    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        """Add rows to a part that no run has read yet; where each comes from."""

    @abstractmethod
    def lose(self, part: str) -> None:
        """All that was landed in the part is gone."""

    @abstractmethod
    def remove(self) -> None:
        """The source itself is gone."""

    def where(self, row: Mapping[str, Any]) -> Where:
        return tuple(row[one.name] for one in ordering(row_origin(self.place.pipeline)))

    def repeated(self, row: Mapping[str, Any]) -> Where:
        """Where the row comes from that a duplicate repeats."""
        origin = ordering(row_origin(self.place.pipeline))
        names = (one.name.removeprefix("_") for one in origin)
        return tuple(row["repeats"][name] for name in names)


def text(row: Row) -> str:
    return row if isinstance(row, str) else json.dumps(row)


class Files(World):
    lost, lost_since = "unreadable file", "changed file"
    ending: ClassVar = "json"
    elsewhere: ClassVar = {"files": "others/*.json"}

    def named(self) -> dict[str, Any]:
        return {"files": f"landing/*.{self.ending}"}

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        number = len(self._files(part))
        file = self.place.land(f"{part}-{number}.json", [text(row) for row in rows])
        return [(file.as_uri(),)] * len(rows)

    def lose(self, part: str) -> None:
        for file in self._files(part):
            file.unlink()

    def _files(self, part: str) -> list[Path]:
        return list((self.place.root / "landing").glob(f"{part}-*.{self.ending}"))

    def remove(self) -> None:
        (self.place.root / "landing").rmdir()


class CsvFiles(Files):
    elsewhere: ClassVar = {"files": "others/*.csv"}
    ending: ClassVar = "csv"

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        number = len(self._files(part))
        lines = ["at,key,amount", *map(self.raw, rows)]
        file = self.place.land(f"{part}-{number}.csv", lines)
        return [(file.as_uri(),)] * len(rows)

    def raw(self, row: Row) -> str:
        return row if isinstance(row, str) else ",".join(str(value) for value in row.values())


class DocumentFiles(Files):
    elsewhere: ClassVar = {"files": "others/*.json"}

    def named(self) -> dict[str, Any]:
        return {"files": "landing/*.json", "format": "json_document"}

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        number = len(self._files(part))
        array = ["[", *(text(row) + "," for row in rows[:-1]), *map(text, rows[-1:]), "]"]
        file = self.place.land(f"{part}-{number}.json", array)
        return [(file.as_uri(),)] * len(rows)


class ParquetFiles(Files):
    """A row that cannot be read is one with a NaN, which has no JSON."""

    elsewhere: ClassVar = {"files": "others/*.parquet"}
    ending: ClassVar = "parquet"

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        file = self.place.land(f"{part}-{len(self._files(part))}.parquet", [])
        pq.write_table(typed(rows), file)
        return [(file.as_uri(),)] * len(rows)

    def raw(self, row: Row) -> str:
        return json.dumps(as_typed(row))


class AvroFiles(Files):
    """A row that cannot be read is a text among the records."""

    elsewhere: ClassVar = {"files": "others/*.avro"}
    ending: ClassVar = "avro"
    _SCHEMA: ClassVar = [record(at="string", key="string", amount="long"), "string"]

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        file = self.place.land(f"{part}-{len(self._files(part))}.avro", [])
        file.write_bytes(avro_bytes(self._SCHEMA, list(rows), codec="snappy", sync_interval=60))
        return [(file.as_uri(),)] * len(rows)

    def raw(self, row: Row) -> str:
        return json.dumps(row)


class Log(World):
    lost, lost_since = "expired", "expired"
    elsewhere: ClassVar = {"log": "others"}

    def named(self) -> dict[str, Any]:
        return {"log": "log"}

    @property
    def folder(self) -> Path:
        return self.place.root / "log"

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        partition = self.folder / part
        partition.mkdir(parents=True, exist_ok=True)
        ends = json.loads(found.read_text()) if (found := self.folder / ENDS).exists() else {}
        begin = ends.get(part, 0)
        for offset, row in enumerate(rows, begin):
            (partition / f"{offset:012}").write_text(text(row))
        found.write_text(json.dumps({**ends, part: begin + len(rows)}))
        return [(int(part), begin + n) for n in range(len(rows))]

    def lose(self, part: str) -> None:
        for message in (self.folder / part).iterdir():
            message.unlink()

    def remove(self) -> None:
        (self.folder / ENDS).unlink()


class Topics(World):
    """A topic of its own in the broker of tests, which is set before a world is made; without it
    only the pipeline's file is there."""

    lost, lost_since, stops_at_losses = "expired", "expired", True
    elsewhere: ClassVar = {"kafka": {"topic": "others", "connection": "broker"}}

    broker: ClassVar[Broker | None] = None

    def __init__(self, root: Path, **source: Any) -> None:
        self.topic = new_name("clicks")
        super().__init__(root, **source)
        if self.broker is not None:
            make_topic(self.broker, self.topic, 3)
            plain = {"servers": self.broker.servers, "security_protocol": "PLAINTEXT"}
            self.place.connections = {"broker": plain}

    def named(self) -> dict[str, Any]:
        return {"kafka": {"topic": self.topic, "connection": "broker"}}

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        assert self.broker is not None
        values = [text(row).encode() for row in rows]
        placed = produce(self.broker, self.topic, values, partition=int(part))
        return [(self.topic, *one) for one in placed]

    def lose(self, part: str) -> None:
        assert self.broker is not None
        number = int(part)
        delete_records(self.broker, self.topic, {number: ends(self.broker, self.topic)[number]})

    def remove(self) -> None:
        assert self.broker is not None
        delete_topic(self.broker, self.topic)

    def settle(self) -> None:
        accept_changes(self.place.pipeline, self.place.settings, "settle", "for a test", "a test")


TYPED = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("key", pa.string()),
        pa.field("amount", pa.int64()),
        pa.field("x", pa.float64()),
    ]
)


def as_typed(row: Row) -> dict[str, Any]:
    """A row in the columns of a table; one that cannot be read has a NaN."""
    good = {"x": None} if isinstance(row, dict) else {"x": float("nan")}
    if isinstance(row, str):
        # What a bad row says tells it from others.
        return {"at": None, "key": row, "amount": None, **good}
    return {**dict.fromkeys(("at", "key", "amount")), **row, **good}


def typed(rows: Sequence[Row]) -> pa.Table:
    found = [as_typed(row) for row in rows]
    for one in found:
        one["at"] = None if one["at"] is None else datetime.fromisoformat(one["at"])
    return pa.Table.from_pylist(found, TYPED)


class Table(World):
    """A table that delta-rs writes. A row that cannot be read is one with a NaN, which has no JSON;
    each `land` is a version with one file, and losing a part takes its files."""

    lost, lost_since, stops_at_losses = "gone", "gone", True
    elsewhere: ClassVar = {"delta": {"table": "others"}}

    def __init__(self, root: Path, **source: Any) -> None:
        super().__init__(root, **source)
        self.landed: dict[str, list[str]] = {}

    def named(self) -> dict[str, Any]:
        return {"delta": {"table": "events"}}

    @property
    def uri(self) -> str:
        return str(self.place.root / "events")

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        write_deltalake(self.uri, typed(rows), mode="append")
        now = DeltaTable(self.uri)
        (file,) = set(_files_of(now)) - {one for files in self.landed.values() for one in files}
        self.landed.setdefault(part, []).append(file)
        return [(now.version(), file, n) for n in range(len(rows))]

    def lose(self, part: str) -> None:
        for file in self.landed[part]:
            (self.place.root / "events" / file).unlink()

    def remove(self) -> None:
        shutil.rmtree(self.uri)

    def raw(self, row: Row) -> str:
        return json.dumps(as_typed(row))

    def whole(self, where: Where) -> Where:
        return (*where[:-1], None)

    def settle(self) -> None:
        accept_changes(self.place.pipeline, self.place.settings, "settle", "for a test", "a test")


def _files_of(table: DeltaTable) -> list[str]:
    return [uri.rpartition("/")[2] for uri in table.file_uris()]


WORLDS: dict[str, type[World]] = {
    "files": Files,
    "csv": CsvFiles,
    "documents": DocumentFiles,
    "parquet": ParquetFiles,
    "avro": AvroFiles,
    "log": Log,
    "kafka": Topics,
    "delta": Table,
}
