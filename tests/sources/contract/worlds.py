"""A harness for each kind of source: a root with a pipeline of the kind, and ways to land rows in
its source and to lose them. To add a kind, add its world."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.kit.running import Place, clicks
from tests.sources.contract.numbered_log import ENDS
from tidemark.sources.kinds import row_origin

Row = Mapping[str, Any] | str
# The values of the origin's columns, in their order.
Where = tuple[Any, ...]


class World(ABC):
    """One pipeline's source. `part` names what is landed and lost together: "0", "1" …

    `lost` is the reason of the reject for a part that vanished before it was read, `lost_since`
    after bronze took its rows.
    """

    lost: ClassVar[str]
    lost_since: ClassVar[str]
    # The same kind of place, elsewhere.
    elsewhere: ClassVar[dict[str, str]]

    def __init__(self, root: Path, **source: Any) -> None:
        common = {k: v for k, v in clicks()["source"].items() if k != "files"}
        self.place = Place(root, clicks(source={**self.named(), **common, **source}))

    @staticmethod
    @abstractmethod
    def named() -> dict[str, str]:
        """What `source` says of where rows come from."""

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
        return tuple(row[one.name] for one in row_origin(self.place.pipeline))

    def repeated(self, row: Mapping[str, Any]) -> Where:
        """Where the row comes from that a duplicate repeats."""
        names = (one.name.removeprefix("_") for one in row_origin(self.place.pipeline))
        return tuple(row["repeats"][name] for name in names)


def text(row: Row) -> str:
    return row if isinstance(row, str) else json.dumps(row)


class Files(World):
    lost, lost_since = "unreadable file", "changed file"
    elsewhere: ClassVar = {"files": "others/*.json"}

    @staticmethod
    def named() -> dict[str, str]:
        return {"files": "landing/*.json"}

    def land(self, part: str, rows: Sequence[Row]) -> list[Where]:
        number = len(self._files(part))
        file = self.place.land(f"{part}-{number}.json", [text(row) for row in rows])
        return [(file.as_uri(),)] * len(rows)

    def lose(self, part: str) -> None:
        for file in self._files(part):
            file.unlink()

    def _files(self, part: str) -> list[Path]:
        return list((self.place.root / "landing").glob(f"{part}-*.json"))

    def remove(self) -> None:
        (self.place.root / "landing").rmdir()


class Log(World):
    lost, lost_since = "expired", "expired"
    elsewhere: ClassVar = {"log": "others"}

    @staticmethod
    def named() -> dict[str, str]:
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


WORLDS: dict[str, type[World]] = {"files": Files, "log": Log}
