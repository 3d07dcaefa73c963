"""An opened table that reads each entry of its log once.

delta-rs (1.6.6) reads the log's tail again for each transaction that is asked for, of which a run
asks for some eighty, and whenever the newest commits are: on object storage each of these files is
a request. Format: `txn` and `commitInfo` actions (PROTOCOL.md, Actions).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tidemark.errors import DataDamaged
from tidemark.pipeline.settings.storage_options import delta_options, is_local
from tidemark.storage.delta.damage import LOG
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing, at_once, is_there, names_behind
from tidemark.storage.json_text import json_value

# A checkpoint is read whole, and so many entries behind it, or delta-rs is asked.
_MOST_BYTES = 8 * 1024**2
_MOST_ENTRIES = 100
_AT_ONCE = 64
# With it the log forgets transactions by their age, which is left to delta-rs.
_FORGETS = "delta.setTransactionRetentionDuration"
_ENTRY = re.compile(r"\d{20}\.json")


class _Untold(Exception):
    """The log does not tell its transactions in the usual way."""


class OpenedTable(DeltaTable):
    """A table, opened at a version, or at its newest one. Raises what delta-rs raises."""

    def __init__(self, place: FilePlace, version: int | None = None) -> None:
        super().__init__(place.uri, version, storage_options=delta_options(place.options))
        self._place = place
        self._noted_at = -1
        self._noted: dict[str, int] = {}
        # Of each entry that was read: an entry never changes.
        self._entries: dict[int, _Entry] = {}

    def is_newest(self) -> bool:
        """Does the log end with the version that this handle is at? One request tells."""
        newest, log, options = self.version(), self._place.below(LOG), self._place.options
        this, following = (f"{number:020}.json" for number in (newest, newest + 1))
        if is_local(log):
            return is_there(f"{log}/{this}", options) and not is_there(
                f"{log}/{following}", options
            )
        found = names_behind(log, f"{newest:020}", options)
        return {name for name in found if _ENTRY.fullmatch(name)} == {this}

    def transaction_version(self, app_id: str) -> int | None:
        """What the version that this handle is at says of an app transaction; None for nothing.

        All of them are read from the log with the first that is asked for, those of later versions
        with the first that is asked for then. Raises StorageUnavailable where that cannot be read.
        """
        try:
            self._read_transactions()
        except (_Untold, FileMissing, ValueError, KeyError, pa.ArrowException):
            # An odd log, or a damaged one, whose error is delta-rs's.
            return super().transaction_version(app_id)
        return self._noted.get(app_id)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits up to the version that this handle is at, newest first, as far as the log
        goes or `limit`, each as its writer told it of itself, and its `version`.

        Of a handle that is not at the newest version, delta-rs tells the newest commits by the
        numbers of others.
        """
        return list(islice(self.commits(), limit))

    def commits(self) -> Iterator[dict[str, Any]]:
        """`history`, whose entries are read as far as somebody asks."""
        for known, number in enumerate(range(self.version(), -1, -1)):
            if number not in self._entries:
                self._read(range(number, max(-1, number - min(known + 1, _AT_ONCE)), -1))
            if number not in self._entries:
                return
            yield {**self._entries[number].told, "version": number}

    def _read_transactions(self) -> None:
        version = self.version()
        if version == self._noted_at:
            return
        if _FORGETS in self.metadata().configuration:
            raise _Untold
        noted, base = self._noted, self._noted_at
        if not 0 <= base < version:
            noted, base = self._checkpointed(version)
        if version - base > _MOST_ENTRIES:
            raise _Untold
        self._read(range(base + 1, version + 1))
        if any(number not in self._entries for number in range(base + 1, version + 1)):
            raise _Untold
        for number in range(base + 1, version + 1):
            noted = {**noted, **self._entries[number].noted}
        self._noted, self._noted_at = noted, version

    def _read(self, numbers: Iterable[int]) -> None:
        """One that is gone is left out: those below a checkpoint may be."""
        told = at_once(self._entry, [one for one in numbers if one not in self._entries])
        self._entries |= {number: one for number, one in told.items() if one is not None}

    def _entry(self, number: int) -> _Entry | None:
        name = f"{LOG}/{number:020}.json"
        try:
            return _Entry.of(self._place.read(name))
        except FileMissing:
            return None
        except (ValueError, KeyError) as error:
            raise DataDamaged(
                f"{self._place.uri}/{name} is no entry of a log: {error}. Nothing was written to "
                "it. Starting again does not help: restore the file from a backup."
            ) from error

    def _checkpointed(self, version: int) -> tuple[dict[str, int], int]:
        """What the log's last checkpoint has, and its version; -1 where there is none."""
        try:
            told = json_value(self._place.read(f"{LOG}/_last_checkpoint"))
        except FileMissing:
            return {}, -1
        base = int(told["version"])
        odd = told.get("parts") or told.get("v2Checkpoint")
        if odd or base > version or told["sizeInBytes"] > _MOST_BYTES:
            raise _Untold
        data = io.BytesIO(self._place.read(f"{LOG}/{base:020}.checkpoint.parquet"))
        rows: list[Any] = pq.read_table(data, columns=["txn"]).column("txn").to_pylist()
        return {one["appId"]: one["version"] for one in rows if one is not None}, base


def newest_first(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """The commits of a table up to its version, newest first; of one that `TablePlace` opened they
    are read as far as somebody asks."""
    return table.commits() if isinstance(table, OpenedTable) else iter(table.history())


@dataclass(frozen=True)
class _Entry:
    """What a commit says of itself: its transactions, and what its writer tells of it, which may
    be nothing."""

    noted: Mapping[str, int]
    told: Mapping[str, Any]

    @classmethod
    def of(cls, entry: bytes) -> _Entry:
        noted, told = dict[str, int](), {"timestamp": 0, "operation": "unknown"}
        for line in entry.splitlines():
            # Not each file's statistics.
            if b'"txn"' not in line and b'"commitInfo"' not in line:
                continue
            action: Mapping[str, Any] = json_value(line, whole=int)
            if (one := action.get("txn")) is not None:
                noted[one["appId"]] = one["version"]
            told = action.get("commitInfo", told)
        return cls(noted, told)
