"""The handle of a file or a folder of files: where it is, how it is reached, and who may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from tidemark.pipeline.source_files import is_uri
from tidemark.storage.files import FileFacts, list_files, list_folder, read_bytes, remove_files

Fence = Callable[[], None]
# So many files take some milliseconds on a disk, and seconds on object storage.
_BETWEEN_FENCES = 100


def unfenced() -> None:
    """Of a place that is only read, or that all pipelines write without a lease."""


@dataclass(frozen=True)
class FilePlace:
    """A place: its path or URI, the storage options that reach it, and the fence.

    `fence` raises LeaseLost where this process may not write any more; it is asked before a write.
    The options may hold secrets, so a place that is printed does not show them.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    fence: Fence = unfenced

    def below(self, name: str) -> str:
        """Where a file of this folder lies, by its name from the folder on."""
        return f"{self.uri.rstrip('/')}/{quote(name) if is_uri(self.uri) else name}"

    def folder(self, name: str) -> FilePlace:
        """A folder of this one."""
        return FilePlace(self.below(name), self.options, self.fence)

    def read(self, name: str) -> bytes:
        """All of a file of this folder; FileMissing where there is none."""
        return read_bytes(self.below(name), self.options)

    def names(self) -> dict[str, bool]:
        """What `list_folder` says of this folder."""
        return list_folder(self.uri, self.options)

    def files(self, name: str = "") -> dict[str, FileFacts]:
        """What `list_files` says of this folder, or of one in it."""
        return list_files(self.below(name) if name else self.uri, self.options)

    def remove_files(self, places: Sequence[str]) -> None:
        """Remove files of this folder, in their order; one that is gone already is no error.

        The fence is asked before the first one, and now and then.
        """
        for start in range(0, len(places), _BETWEEN_FENCES):
            self.fence()
            remove_files(places[start : start + _BETWEEN_FENCES], self.options)
