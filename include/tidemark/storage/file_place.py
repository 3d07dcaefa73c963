"""The handle of a file or a folder of files: where it is, how it is reached, and who may write."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tidemark.pipeline.settings.storage_options import is_local, local_path
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

    def led_out(self, names: Iterable[str]) -> str | None:
        """A folder of some of these files that is a link to a place out of this one; None where
        there is none, as in stores that know no links."""
        if not is_local(self.uri):
            return None
        base = os.path.realpath(local_path(self.uri))
        folders = sorted({name.rpartition("/")[0] for name in names})
        real = ((folder, os.path.realpath(f"{base}/{folder}")) for folder in folders)
        return next((folder for folder, at in real if not Path(at).is_relative_to(base)), None)

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
