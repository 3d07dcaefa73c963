"""The table as it is now: whether it can be read right, and what it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from tidemark.errors import DataDamaged, SourceNotFound, SourceRefused, TableUnsupported
from tidemark.pipeline.settings.storage_options import delta_options
from tidemark.pipeline.source_files import is_uri
from tidemark.sources.delta.log import AddedFile, Version, mapped_by, path_of, read_version
from tidemark.storage.files import Options, at_once

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Reader features (Delta's protocol, "Table features") under which a file's rows are what they are:
# deletions are met as changed rows, and the log is read by its commits.
# Types that were widened since: a file's rows are judged as they lie in it.
_READ = {
    *("deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"),
    *("typeWidening", "typeWidening-preview"),
}
_MOST_AHEAD = 1024
_AS_JSON = {"string", "date"}
_BARE = {"byte", "short", "integer", "long", "float", "double", "boolean"}


def _anywhere(_: str) -> None:
    return None


@dataclass(frozen=True)
class HeldFile:
    """A file of a snapshot, and the places of its rows that are deleted."""

    file: AddedFile
    deleted: tuple[int, ...]

    def is_live(self, places: Any) -> Any:
        """Which of these rows the table holds, as Arrow's booleans."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.invert(pc.is_in(places, pa.array(self.deleted, pa.int64())))


@dataclass
class SourceTable:
    """A table of somebody else. Versions are read once. `why_not`: why a file at such a place is
    not read; None where it is."""

    uri: str
    options: Options
    now: DeltaTable
    why_not: Callable[[str], str | None] = _anywhere
    _versions: dict[int, Version | None] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What tells it from another table at the same place."""
        return str(self.now.metadata().id)

    @property
    def newest(self) -> int:
        """Its newest version."""
        return self.now.version()

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names, in upper and lower case as the table has them."""
        return tuple(one.name for one in self.now.schema().fields)

    @property
    def types(self) -> dict[str, str]:
        """Their types, as Delta calls them; of a nested one its kind."""
        fields = json.loads(self.now.schema().to_json())["fields"]
        kinds = [(one["name"], one["type"]) for one in fields]
        return {name: kind if isinstance(kind, str) else kind["type"] for name, kind in kinds}

    @cached_property
    def first(self) -> int | None:
        """Its first version; None where the log does not reach back to its beginning. Before it may
        lie those of a table that it replaced in the same log (CREATE OR REPLACE)."""
        if self._read(0) is None:
            return None
        read = ((n, self._read(n)) for n in self._read_ahead(range(self.newest + 1)))
        return next((n for n, one in read if one and one.sets_id == self.id), None)

    def version(self, number: int) -> Version | None:
        """One of its versions; None where the log does not have it any more."""
        found = self._read(number)
        if found is None or found.sets_id != self.id or number == 0 or number != self.first:
            return found
        # What it took away are rows of the table before.
        return replace(found, removed=0)

    def versions(self, numbers: range) -> Iterator[tuple[int, Version | None]]:
        """Several of them, in their order, as `version` gives each."""
        for number in self._read_ahead(numbers):
            yield number, self.version(number)

    def mark(self, number: int) -> str | None:
        """The digest of a version's commit; None where the log does not have it."""
        found = self._read(number) if number >= 0 else None
        return None if found is None else found.digest

    def _read(self, number: int) -> Version | None:
        if number not in self._versions:
            self._versions[number] = read_version(self.uri, number, self.options)
        return self._versions[number]

    def _read_ahead(self, numbers: range) -> Iterator[int]:
        """The numbers, each once it is read, with more and more that follow it: on an object store
        each takes a round trip. Who stops at one of the first has not read all."""
        ahead = 1
        while numbers:
            now, numbers, ahead = numbers[:ahead], numbers[ahead:], min(2 * ahead, _MOST_AHEAD)
            missing = [number for number in now if number not in self._versions]
            self._versions |= at_once(
                lambda number: read_version(self.uri, number, self.options), missing, self.uri
            )
            yield from now

    def snapshot(self, number: int) -> tuple[AddedFile, ...]:
        """All files that the table held at a version, in the order of their paths, with the places
        of rows that were deleted. Raises as `held`."""
        return tuple(replace(one.file, deleted=one.deleted) for one in self.held(number).values())

    def held(self, number: int) -> dict[str, HeldFile]:
        """All files that the table held at a version, by their paths, and which of their rows were
        deleted. DataDamaged where the log does not tell any more; SourceRefused where it is not
        told of which file rows are deleted."""
        from deltalake.exceptions import DeltaError

        table = self._at(number)
        hidden = {}
        if "deletionVectors" in (self.now.protocol().reader_features or ()):
            try:
                vectors = table.deletion_vectors().read_all()
            except DeltaError as error:
                raise SourceRefused(
                    f"Which rows of {self.uri} are deleted (deletion vectors) at version {number} "
                    f"cannot be read: {error}. Nothing was read, and nothing was changed."
                ) from error
            for one in _records(vectors):
                kept = enumerate(one["selection_vector"])
                hidden[unquote(one["filepath"])] = tuple(at for at, is_kept in kept if not is_kept)
        found = {}
        for file in _files(table):
            ending = f"/{file.path}"
            if is_uri(file.path):
                # The log may have it with one slash behind its scheme, and percent-encoded.
                ending = "/" + unquote(file.path).partition(":")[2].lstrip("/")
            of_it = next((uri for uri in hidden if uri.endswith(ending)), "")
            found[file.path] = HeldFile(file, hidden.pop(of_it, ()))
        if hidden:
            raise SourceRefused(
                f"Rows are deleted (deletion vectors) of no file that the table {self.uri} held at "
                f"version {number}: {min(hidden)}. So which rows it held is not told. Nothing was "
                "read, and nothing was changed. Read it from a copy without deletion vectors."
            )
        return found

    def may_map_at(self, number: int) -> bool:
        """Were its columns mapped at a version? Where the log does not tell any more, they may have
        been if the table's protocol has that."""
        try:
            return mapped_by(self._at(number).metadata().configuration) is not None
        except DataDamaged:
            protocol = self.now.protocol()
            features = protocol.reader_features or ()
            return protocol.min_reader_version == 2 or "columnMapping" in features

    def _at(self, number: int) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            return DeltaTable(self.uri, version=number, storage_options=delta_options(self.options))
        except DeltaError as error:
            raise DataDamaged(
                f"What {self.uri} held at version {number}, which a batch was planned to read and "
                f"did not, is not in its log any more: {error}. Nothing was read. Restore the log "
                "from a backup, or start a pipeline under a new name."
            ) from error

    def uri_of(self, file: AddedFile) -> str:
        """Where a file lies. Raises SourceRefused where the log names one that is not to be
        read: its writer names it, and the run has the keys."""
        found = f"{self.uri}/{quote(file.path) if is_uri(self.uri) else file.path}"
        if is_uri(file.path):
            found = file.path
        if why := self.why_not(found):
            raise SourceRefused(f"The log of {self.uri} names the file {found}, which {why}")
        return found

    def partition_of(self, file: AddedFile) -> dict[str, str]:
        """The file's values of partition columns, as JSON. Raises SourceRefused for types whose
        text in the log does not say what they are."""
        return {
            name: self._as_json(name, kind, file.partition[name])
            for name, kind in self.types.items()
            if name in file.partition
        }

    def _as_json(self, name: str, kind: str, value: str | None) -> str:
        if value is None or value == "":
            return "null"
        if kind in _AS_JSON:
            return json.dumps(value, ensure_ascii=False)
        if kind in _BARE or kind.startswith("decimal"):
            return value
        raise SourceRefused(
            f"The table {self.uri} is partitioned by {name}, of type {kind}, whose value in the "
            "log has no zone of its own: it would be a guess. Nothing was read. Tables that are "
            "partitioned by text, numbers, dates and booleans can be read."
        )


def open_table(
    uri: str, options: Options, why_not: Callable[[str], str | None] = _anywhere
) -> SourceTable:
    """The table as it is now. Raises SourceNotFound where there is none, SourceRefused where it has
    features that this reading would get wrong, DataDamaged and StorageUnavailable."""
    # delta-rs, which commands that only place a source do without.
    from tidemark.storage.delta.place import TablePlace

    try:
        now = TablePlace(uri, options).open()
    except TableUnsupported as error:
        raise SourceRefused(
            f"{error} Read from a copy without it, or ask for the feature."
        ) from error
    if now is None:
        raise SourceNotFound(
            f"There is no Delta table {uri}. Nothing was read in this run. Make it, or correct "
            "source.delta.table in the pipeline; where it was removed for good, what was read of "
            "it stays in bronze."
        )
    features = set(now.protocol().reader_features or ())
    mode = mapped_by(now.metadata().configuration)
    unknown = sorted(features - _READ)
    if unknown or mode is not None:
        what = f"the features {', '.join(unknown)}" if unknown else f"columns mapped by {mode}"
        raise SourceRefused(
            f"The table {uri} has {what}, which are not read. Nothing was read. Read it from a "
            "copy without them, or ask for the feature."
        )
    return SourceTable(uri, options, now, why_not)


def check_is_whole(table: SourceTable, number: int) -> Version:
    """A version that has to be there. Raises DataDamaged where it is not."""
    found = table.version(number)
    if found is None:
        raise DataDamaged(
            f"Version {number} of {table.uri} was in its log when the batch was planned, and is "
            "not now. Nothing was read. Run again: the run says what was lost."
        )
    return found


def _files(table: DeltaTable) -> Iterator[AddedFile]:
    """Those of its version, in the order of their paths."""
    import pyarrow as pa

    told = pa.table(table.get_add_actions(flatten=False))
    # Bounds may be days and times that Python does not have.
    asked = ("path", "partition", "num_records", "size_bytes")
    adds = _records(told.select([one for one in asked if one in told.column_names]))
    for one in sorted(adds, key=lambda add: str(add["path"])):
        partition = {name: _text(value) for name, value in (one.get("partition") or {}).items()}
        rows, size = one.get("num_records"), int(one.get("size_bytes") or 0)
        yield AddedFile(path_of(str(one["path"])), partition, rows, size, has_deletions=False)


def _records(actions: Any) -> Sequence[Mapping[str, Any]]:
    import pyarrow as pa

    return pa.table(actions).to_pylist()


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
