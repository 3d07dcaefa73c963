"""An opened table that reads each entry of its log once, and opens it by delta-rs where it has to.

delta-rs (1.6.6) reads the log's tail twice to open a table, again for each transaction that is
asked for, and whenever the newest commits are: on object storage each of these files is a request.
What a run asks of most tables are their identity, transactions and commits, which are read here. On
object storage what files there are is told by delta-rs of a copy of the log on this machine. It
opens the table itself where it writes, and from the start where the log is odd or damaged.
Format: `txn`, `commitInfo`, `metaData` and `protocol` actions (PROTOCOL.md, Actions).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Metadata, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from tidemark.errors import DataDamaged, TableLost
from tidemark.pipeline.settings.storage_options import delta_options, is_local
from tidemark.storage.delta.damage import LOG, is_entry, not_opened
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, FileMissing, at_once, files_behind, is_there
from tidemark.storage.json_text import json_value

# A checkpoint is read whole, and so many entries behind it, or delta-rs is asked.
_MOST_BYTES = 8 * 1024**2
_MOST_ENTRIES = 100
_AT_ONCE = 64
# A file of fewer bytes is read whole, and so many of them are kept.
_SMALL = 256 * 1024
_MOST_KEPT = 16
# With it the log forgets transactions by their age, which is left to delta-rs.
_FORGETS = "delta.setTransactionRetentionDuration"
_ENTRY = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
# Checksums, of the log and of a local disk, tell nothing that is needed.
_OTHER = re.compile(r"\d{20}\.(?!crc$|json\.crc$)")
_HINT = "_last_checkpoint"
_OF_TABLE = ("metaData", "protocol")
_TELLING = (b'"txn"', b'"commitInfo"', b'"metaData"', b'"protocol"')


class _Untold(Exception):
    """The log does not tell its table in the usual way."""


_ODD = (
    *(_Untold, FileMissing, ValueError, KeyError, TypeError, AttributeError, OverflowError),
    pa.ArrowException,
)


class OpenedTable(DeltaTable):
    """A table, opened at a version, or at its newest one. Raises what delta-rs raises."""

    def __init__(self, place: FilePlace, version: int | None = None) -> None:
        self._storage_options = delta_options(place.options)
        self._place = place
        self._noted_at = -1
        self._noted: Mapping[str, int] = {}
        # Of each entry that was read: an entry never changes.
        self._entries: dict[int, _Entry] = {}
        # Those of the entries, while the log is read.
        self._contents: dict[str, bytes] = {}
        self._log: _Log | None = None
        self._opened: DeltaTable | None = None
        self._copied: DeltaTable | None = None
        self._kept: dict[str, bytes] = {}
        if version is None:
            with suppress(*_ODD):
                self._log = self._read_log()
        if self._log is None:
            self._opened = self._by_delta_rs(version)

    @property
    def _table(self) -> Any:  # type: ignore[override]  # made with the first that asks
        """The table as delta-rs has it, opened at the version that was read; for `DeltaTable`."""
        if self._opened is None:
            try:
                opened = self._by_delta_rs(self.version())
            except (DeltaError, OSError) as error:
                raise not_opened(self._place, error) from error
            if self._log is not None and opened.metadata().id != self._log.metadata["id"]:
                raise TableLost(
                    f"Another table lies in {self._place.uri} than a moment ago. Nothing was "
                    "written to it. Starting again looks at what is there now."
                )
            self._opened = opened
        return self._opened._table

    def _by_delta_rs(self, version: int | None) -> DeltaTable:
        return DeltaTable(self._place.uri, version, storage_options=self._storage_options)

    @property
    def table_uri(self) -> str:
        return str(self._table.table_uri()) if self._log is None else self._place.uri

    def version(self) -> int:
        if self._opened is None and self._log is not None:
            return self._log.version
        return int(self._table.version())

    def metadata(self) -> Metadata:
        if self._opened is None and self._log is not None:
            return _Told(self._log.metadata)
        return super().metadata()

    def schema(self) -> Schema:
        if self._opened is None and self._log is not None:
            return Schema.from_json(self._log.metadata["schemaString"])
        return super().schema()

    def partitions(self, *arguments: Any, **named: Any) -> list[dict[str, str]]:
        return DeltaTable.partitions(self._files_told() or self, *arguments, **named)

    def get_add_actions(self, flatten: bool = False) -> Any:
        return DeltaTable.get_add_actions(self._files_told() or self, flatten)

    def to_pyarrow_dataset(self, *arguments: Any, **named: Any) -> Any:
        table = self._files_told() or self
        if not is_local(self._place.uri):
            files = pa.table(table.get_add_actions()).select(["path", "size_bytes"])
            sizes = {one["path"]: one["size_bytes"] for one in files.to_pylist()}
            handler: Any = _Files(self._place, self._storage_options, sizes, self._kept)
            named = {**named, "filesystem": PyFileSystem(handler)}
        return DeltaTable.to_pyarrow_dataset(table, *arguments, **named)

    def _files_told(self) -> DeltaTable | None:
        """A copy of the log, opened on this machine; None where the table itself is opened."""
        if self._opened is not None or self._log is None:
            return None
        if self._copied is None:
            with TemporaryDirectory() as folder:
                log = Path(folder, LOG)
                log.mkdir()
                for name, content in self._log.files.items():
                    (log / name).write_bytes(content)
                try:
                    self._copied = DeltaTable(folder)
                except DeltaError as error:
                    raise not_opened(self._place, error) from error
        return self._copied

    def _read_log(self) -> _Log:
        """The log as it is now; _Untold, or what reading raises, where it is an odd one."""
        log, options = self._place.below(LOG), self._place.options
        if is_local(log):
            # Delta-rs opens it in a millisecond.
            raise _Untold
        base, files = self._hint()
        found = files_behind(log, f"{max(base, 0):020}", options)
        if base < 0 and not found:
            raise TableNotFoundError(f"{log} has no file")
        if any(_is_odd(name) for name in found):
            raise _Untold
        numbers = {int(name[:20]) for name in found if _ENTRY.fullmatch(name)}
        whole = {int(name[:20]) for name in found if _CHECKPOINT.fullmatch(name)}
        version = max(numbers, default=base)
        behind = range(base + 1, version + 1)
        if len(behind) > _MOST_ENTRIES or whole != ({base} if base >= 0 else set()):
            raise _Untold
        noted, actions = dict[str, int](), dict[str, Any]()
        if base >= 0:
            name = _checkpoint_name(base)
            files[name] = self._place.read(f"{LOG}/{name}", found[name])
            noted, actions = _of_checkpoint(files[name])
        self._contents = {}
        self._read(behind, found)
        for number in behind:
            entry, name = self._entries[number], _entry_name(number)
            noted, actions = {**noted, **entry.noted}, {**actions, **entry.of_table}
            if entry.is_odd or not is_entry(self._contents[name]):
                raise _Untold
        files |= self._contents
        self._contents = {}
        known, protocol = actions["metaData"], actions["protocol"]
        reader = protocol["minReaderVersion"]
        if reader is True or reader != 1 or protocol.get("readerFeatures") is not None:
            raise _Untold
        if _FORGETS in known["configuration"]:
            raise _Untold
        self._noted, self._noted_at = noted, version
        return _Log(version, known, files)

    def is_newest(self) -> bool:
        """Does the log end with the version that this handle is at? One request tells."""
        newest, log, options = self.version(), self._place.below(LOG), self._place.options
        this, following = _entry_name(newest), _entry_name(newest + 1)
        if is_local(log):
            return is_there(f"{log}/{this}", options) and not is_there(
                f"{log}/{following}", options
            )
        found = files_behind(log, f"{newest:020}", options)
        return {name for name in found if _ENTRY.fullmatch(name)} == {this}

    def transaction_version(self, app_id: str) -> int | None:
        """What the version that this handle is at says of an app transaction; None for nothing.

        All of them are read from the log with the first that is asked for, those of later versions
        with the first that is asked for then. Raises StorageUnavailable where that cannot be read.
        """
        try:
            self._read_transactions()
        except _ODD:
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
            (base, _), noted = self._hint(), {}
            if base >= 0:
                content = self._place.read(f"{LOG}/{_checkpoint_name(base)}")
                noted = _of_checkpoint(content, ["txn"])[0]
        if not base <= version <= base + _MOST_ENTRIES:
            raise _Untold
        self._read(range(base + 1, version + 1))
        for number in range(base + 1, version + 1):
            entry = self._entries.get(number)
            if entry is None or entry.is_odd:
                raise _Untold
            noted = {**noted, **entry.noted}
        self._noted, self._noted_at = noted, version

    def _read(self, numbers: Iterable[int], listed: Mapping[str, FileFacts] | None = None) -> None:
        """One that is gone is left out: those below a checkpoint may be."""
        lacking = [one for one in numbers if one not in self._entries]
        told = at_once(partial(self._entry, listed or {}), lacking, self._place.uri)
        self._entries |= {number: one for number, one in told.items() if one is not None}

    def _entry(self, listed: Mapping[str, FileFacts], number: int) -> _Entry | None:
        name = f"{LOG}/{_entry_name(number)}"
        try:
            content = self._place.read(name, listed.get(_entry_name(number)))
            if self._log is None and self._opened is None:
                self._contents[_entry_name(number)] = content
            return _Entry.of(content)
        except FileMissing:
            return None
        except (ValueError, KeyError) as error:
            raise DataDamaged(
                f"{self._place.uri}/{name} is no entry of a log: {error}. Nothing was written to "
                "it. Starting again does not help: restore the file from a backup."
            ) from error

    def _hint(self) -> tuple[int, dict[str, bytes]]:
        """The version of the log's last checkpoint, and the file that tells it; -1 where there is
        none."""
        try:
            hint = self._place.read(f"{LOG}/{_HINT}")
        except FileMissing:
            return -1, {}
        told = json_value(hint)
        if told.get("parts") or told.get("v2Checkpoint") or told["sizeInBytes"] > _MOST_BYTES:
            raise _Untold
        return int(told["version"]), {_HINT: hint}


class _Files(DeltaStorageHandler):
    """A table's files as Arrow reads them: a small one with one request, and some of these once,
    which are `kept`."""

    def __init__(
        self,
        place: FilePlace,
        options: dict[str, str] | None,
        sizes: dict[str, int],
        kept: dict[str, bytes],
    ) -> None:
        super().__init__(place.uri, options, sizes)
        self._place, self._sizes, self._kept = place, sizes, kept

    def open_input_file(self, path: str) -> Any:
        if path in self._kept:
            return pa.BufferReader(self._kept[path])
        if self._sizes.get(path, _SMALL) < _SMALL:
            with suppress(FileMissing):
                content = self._place.read(path)
                if len(self._kept) < _MOST_KEPT:
                    self._kept[path] = content
                return pa.BufferReader(content)
        return super().open_input_file(path)


def newest_first(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """The commits of a table up to its version, newest first; of one that `TablePlace` opened they
    are read as far as somebody asks."""
    return table.commits() if isinstance(table, OpenedTable) else iter(table.history())


def _entry_name(number: int) -> str:
    return f"{number:020}.json"


def _checkpoint_name(number: int) -> str:
    return f"{number:020}.checkpoint.parquet"


def _is_odd(name: str) -> bool:
    known = _ENTRY.fullmatch(name) or _CHECKPOINT.fullmatch(name)
    return not known and _OTHER.match(name) is not None


def _of_checkpoint(
    content: bytes, columns: list[str] | None = None
) -> tuple[dict[str, int], dict[str, Any]]:
    """The transactions of a checkpoint, and what it says of the table; of these columns alone,
    where they are given."""
    rows = pq.read_table(io.BytesIO(content), columns=columns)
    noted = {one["appId"]: one["version"] for one in _values(rows, "txn")}
    return noted, {kind: one for kind in _OF_TABLE for one in _values(rows, kind)}


def _values(rows: pa.Table, kind: str) -> list[Any]:
    if kind not in rows.column_names:
        return []
    column: Any = rows.column(kind)
    values: list[Any] = column.drop_null().to_pylist(maps_as_pydicts="strict")
    return values


class _Told(Metadata):
    """A table's metadata by its log's own action."""

    def __init__(self, action: Mapping[str, Any]) -> None:
        names = {"partition_columns": "partitionColumns", "created_time": "createdTime"}
        plain = {name: action.get(name) for name in ("id", "name", "description", "configuration")}
        told = {name: action.get(of) for name, of in names.items()}
        self._metadata: Any = SimpleNamespace(**plain, **told)


@dataclass(frozen=True)
class _Log:
    """A log up to a version: its table's `metaData`, and the files that tell the version."""

    version: int
    metadata: Mapping[str, Any]
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class _Entry:
    """What a commit says of itself: its transactions, what its writer tells of it, which may be
    nothing, and what it says of the table. `is_odd`: one of these twice, or as no writer does."""

    noted: Mapping[str, int]
    told: Mapping[str, Any]
    of_table: Mapping[str, Any]
    is_odd: bool

    @classmethod
    def of(cls, entry: bytes) -> _Entry:
        noted, of_table, is_odd = dict[str, int](), dict[str, Any](), False
        told = {"timestamp": 0, "operation": "unknown"}
        for line in entry.splitlines():
            # Not each file's statistics.
            if not any(name in line for name in _TELLING):
                continue
            action: Mapping[str, Any] = json_value(line, whole=int)
            if (one := action.get("txn")) is not None:
                name, version = one["appId"], one["version"]
                is_long = type(version) is int and -(2**63) <= version < 2**63
                is_odd |= name in noted or not is_long
                noted[name] = version
            told = action.get("commitInfo", told)
            is_odd |= any(kind in action for kind in of_table)
            of_table |= {kind: action[kind] for kind in _OF_TABLE if kind in action}
        return cls(noted, told, of_table, is_odd)
