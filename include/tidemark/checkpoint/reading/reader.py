"""Read single files of a checkpoint, and tell what was wrong with those that could not be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tidemark.checkpoint.reading.checksums import matches_twin, recorded_size, twin_of
from tidemark.checkpoint.reading.facts import FileProblem, Unreadable
from tidemark.checkpoint.reading.log_formats import NotTheFormat, UnknownFormat
from tidemark.errors import StorageUnavailable
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, read_end

T = TypeVar("T")


@dataclass(frozen=True)
class CheckpointReader:
    """The files of one checkpoint. `wrong_checksums` collects those that do not match theirs."""

    place: FilePlace
    files: Mapping[str, FileFacts]
    wrong_checksums: list[str] = field(default_factory=list)

    def read(self, name: str, parse: Callable[[bytes], T]) -> T | Unreadable:
        """What `parse` makes of a file; Unreadable where the file cannot be used."""
        data = self.data(name)
        if isinstance(data, Unreadable):
            return data
        if not data:
            return Unreadable(name, FileProblem.EMPTY)
        try:
            return parse(data)
        except UnknownFormat as error:
            return Unreadable(name, FileProblem.UNKNOWN_FORMAT, str(error))
        except NotTheFormat as error:
            return Unreadable(name, FileProblem.NOT_THE_FORMAT, f"it holds {error}")

    def has_checksum(self, name: str) -> bool:
        """Has a file a checksum beside it, of either kind?"""
        return twin_of(name) in self.files or f"{name}.crc" in self.files

    def data(self, name: str) -> bytes | Unreadable:
        """The bytes of a file; it is noted where they do not match a checksum beside it."""
        try:
            data = self.place.read(name)
            if not self._matches(name, data):
                self.wrong_checksums.append(name)
        except StorageUnavailable as error:
            return Unreadable(name, FileProblem.UNREADABLE, str(error))
        return data

    def end(self, name: str, length: int) -> bytes | Unreadable:
        """The last bytes of a file, which is compared with no checksum."""
        uri, size = self.place.below(name), self.files[name].size
        try:
            return read_end(uri, size, length, self.place.options)
        except StorageUnavailable as error:
            return Unreadable(name, FileProblem.UNREADABLE, str(error))

    def _matches(self, name: str, data: bytes) -> bool:
        twin, checksum = twin_of(name), f"{name}.crc"
        if twin in self.files and not matches_twin(data, self.place.read(twin)):
            return False
        if checksum not in self.files:
            return True
        try:
            return recorded_size(self.place.read(checksum)) == len(data)
        except NotTheFormat:
            return False
