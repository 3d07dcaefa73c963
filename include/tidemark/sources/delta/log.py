"""What the commits of a table's log say, one JSON file a version (Delta's protocol, "Delta log
entries"). delta-rs tells what a table holds, not what a version added to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from tidemark.errors import DataDamaged
from tidemark.pipeline.source_files import is_uri
from tidemark.storage.files import FileMissing, Options, read_bytes
from tidemark.storage.json_text import json_value

_RESTORE = "RESTORE"
_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True)
class AddedFile:
    """A file with rows: its path below the table, or its URI, its partition's values as the log
    has them, and how many rows it says it has. `has_deletions`: some of them are deleted;
    `deleted`: their places, as far as they were asked for."""

    path: str
    partition: Mapping[str, str | None]
    rows: int | None
    bytes: int
    has_deletions: bool
    deleted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Version:
    """What one commit did: files that bring rows, and how many it took rows from. Files that only
    moved rows (`dataChange` false, as OPTIMIZE writes them) are neither: `moved` has the paths of
    those that it added. `time_ms`: what the commit says, which may be no time. `sets_id`: the id of
    the table, where the commit gives it one. `digest`: of the commit as it is written, which tells
    it from another of the same number. `maps`: are its columns mapped from here on; None where the
    commit does not say."""

    number: int
    added: tuple[AddedFile, ...]
    removed: int
    operation: str
    time_ms: object
    sets_id: str | None
    digest: str
    maps: bool | None
    moved: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[AddedFile, ...]:
        """The files that it added, in the order of their paths."""
        return tuple(sorted(self.added, key=lambda one: one.path))

    @property
    def changes_rows(self) -> bool:
        """Did it delete or change rows that were there? RESTORE may only add files: those that were
        read when they came first."""
        is_restored = self.operation == _RESTORE and bool(self.added)
        return self.removed > 0 or is_restored or any(one.has_deletions for one in self.added)


def read_version(table: str, number: int, options: Options) -> Version | None:
    """A version of the table at a URI; None where its commit is not in the log any more.

    Raises DataDamaged where it is no commit.
    """
    place = f"{table}/_delta_log/{number:020}.json"
    try:
        content = read_bytes(place, options)
    except FileMissing:
        return None
    try:
        text = content.decode()
        # Not by `splitlines`: values in statistics may hold what it takes for an end of line.
        entries = [json_value(line, whole=int) for line in text.split("\n") if line.strip()]
        return _version(number, entries, sha256(content).hexdigest()[:16])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataDamaged(
            f"{place} is no commit of a Delta table: {error}. Nothing was read. Restore the file; "
            "the next run goes on."
        ) from error


def _version(number: int, entries: list[dict[str, Any]], digest: str) -> Version:
    adds = [one["add"] for one in entries if "add" in one]
    removes = [one["remove"] for one in entries if "remove" in one]
    infos = [one["commitInfo"] for one in entries if "commitInfo" in one]
    metadata = [one["metaData"] for one in entries if "metaData" in one]
    info = infos[0] if infos else {}
    return Version(
        number,
        tuple(added_file(one) for one in adds if one["dataChange"]),
        sum(1 for one in removes if one["dataChange"]),
        str(info.get("operation", "a commit that does not say what it is")),
        info.get("timestamp"),
        str(metadata[0]["id"]) if metadata else None,
        digest,
        mapped_by(metadata[0].get("configuration")) is not None if metadata else None,
        tuple(path_of(str(one["path"])) for one in adds if not one["dataChange"]),
    )


def mapped_by(configuration: Mapping[str, str | None] | None) -> str | None:
    """What a table's columns are mapped by, of its properties: files name them otherwise then. None
    where they are not."""
    mode = (configuration or {}).get(_MAPPING)
    return None if mode == "none" else mode


def added_file(add: Mapping[str, Any]) -> AddedFile:
    """Of an `add` entry."""
    stats = json_value(add["stats"], whole=int) if add.get("stats") else {}
    return AddedFile(
        path_of(str(add["path"])),
        dict(add.get("partitionValues") or {}),
        stats.get("numRecords"),
        int(add.get("size") or 0),
        add.get("deletionVector") is not None,
    )


def path_of(written: str) -> str:
    """Of a path as the log writes it, percent-encoded: below the table as it is, a URI as a URI."""
    return written if is_uri(written) else unquote(written)
