"""The handle of a file or a folder of files: where it is, how it is reached, and who may write."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import is_uri
from tidemark.storage.files import (
    FileFacts,
    list_files,
    list_folder,
    list_staged,
    read_bytes,
    read_tagged,
    remove_files,
    stat_files,
)

Fence = Callable[[], None]
# So many files take some milliseconds on a disk, and seconds on object storage.
_BETWEEN_FENCES = 100
Told = TypeVar("Told")
# What was read of stores, by place and options, with the entity tag that was told with it: what has
# the same tag is the same, whenever and by whichever thread it is asked for. No larger files than
# this one, so many bytes in all, and the oldest go first.
_LARGEST_KEPT, _MOST_KEPT = 1024**2, 16 * 1024**2
_KEPT: dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, bytes]] = {}
_KEEPING = Lock()
_LOOK: ContextVar[dict[tuple[str, str], Any] | None] = ContextVar("look", default=None)


def unfenced() -> None:
    """Of a place that is only read, or that all pipelines write without a lease."""


@contextmanager
def having(variable: ContextVar[Told], value: Told) -> Iterator[None]:
    """Within it the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def one_look() -> Iterator[None]:
    """Within it what handles tell is asked of the store once, and is as it was then.

    For what decides by many looks at the same places, under the lease where another may write. Of
    its own writes a look sees commits, which move the handles that it has, and tables that were
    made or moved (`look_again`). A look within another is a part of it. Another thread has none;
    the lease's files are read as they are now.
    """
    if _LOOK.get() is not None:
        yield
        return
    with having(_LOOK, {}):
        yield


def asked_once(what: str, uri: str, ask: Callable[[], Told]) -> Told:
    """What `ask` tells of a place; in a look what it told first, which nobody may change."""
    look = _LOOK.get()
    if look is None:
        return ask()
    if (what, uri) not in look:
        look[what, uri] = ask()
    told: Told = look[what, uri]
    return told


def look_again(what: str, uri: str) -> None:
    """A look asks for this again: it is another one since, by a write of this process."""
    (_LOOK.get() or {}).pop((what, uri), None)


def _listed(folder: str) -> dict[str, FileFacts] | None:
    """What a look has listed of a folder; None where its files' places do not begin with it."""
    listed: dict[str, FileFacts] | None = (_LOOK.get() or {}).get(("files", folder))
    # S3A leaves a file of no bytes in the place of a folder.
    if listed is None or not all(uri.startswith(f"{folder}/") or uri == folder for uri in listed):
        return None
    return listed


def _names_listed(folder: str) -> dict[str, bool] | None:
    """The names in a folder by what a look has listed of it; None where it has not, or one may be
    that of a folder without a file."""
    names: dict[str, bool] = {}
    for uri, facts in (_listed(folder) or {}).items():
        name, is_folder, _ = uri.removeprefix(f"{folder}/").partition("/")
        if not is_folder and not facts.size:
            return None
        names[unquote(name)] = bool(is_folder)
    return names or None


def _content(place: str, options: Mapping[str, str], listed: FileFacts | None) -> bytes:
    """A file's content; one that was listed, and was read with the same tag, is not read again."""
    if is_local(place):
        return read_bytes(place, options)
    asked = place, frozenset(options.items())
    tag, content = _KEPT.get(asked, (None, b""))
    if tag is not None and listed is not None and tag == listed.e_tag:
        return content
    content, tag = read_tagged(place, options)
    with _KEEPING:
        _KEPT.pop(asked, None)
        if tag is not None and len(content) <= _LARGEST_KEPT:
            _KEPT[asked] = tag, content
        while sum(len(one) for _, one in _KEPT.values()) > _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return content


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

    def linked(self, names: Iterable[str]) -> str | None:
        """A file of these names that is reached by a link, or is one; None where there is none, as
        in stores that know no links. The folder itself may be reached by one."""
        if not is_local(self.uri):
            return None
        base = os.path.realpath(local_path(self.uri))
        return next(
            (one for one in names if os.path.realpath(f"{base}/{one}") != f"{base}/{one}"), None
        )

    def read(self, name: str, listed: FileFacts | None = None) -> bytes:
        """All of a file of this folder, of which a listing may just have told this; FileMissing
        where there is none."""
        place = self.below(name)
        known = listed or (_LOOK.get() or {}).get(("files", self.uri), {}).get(place)
        return asked_once("content", place, lambda: _content(place, self.options, known))

    def names(self) -> dict[str, bool]:
        """What `list_folder` says of this folder."""
        listed = None if is_local(self.uri) else _names_listed(self.uri)
        if listed is not None:
            return listed
        return asked_once("names", self.uri, lambda: list_folder(self.uri, self.options))

    def files(self, name: str = "") -> dict[str, FileFacts]:
        """What `list_files` says of this folder, or of one in it."""
        place = self.below(name) if name else self.uri
        whole = _listed(self.uri) if name else None
        if whole is not None:
            return {uri: facts for uri, facts in whole.items() if uri.startswith(f"{place}/")}
        return asked_once("files", place, lambda: list_files(place, self.options))

    def real_files(self) -> dict[str, FileFacts]:
        """`files`, without what S3A keeps for a folder: an object `folder/` of no bytes, which is
        listed as a file `folder` and cannot be read or removed by that name."""
        found = self.files()
        if is_local(self.uri):
            return found
        empty = {uri for uri, facts in found.items() if not facts.size}
        asked = empty - {uri.rpartition("/")[0] for uri in found} - {self.uri.rstrip("/")}
        there = {uri for uri, facts in stat_files(asked, self.options).items() if facts is not None}
        return {uri: facts for uri, facts in found.items() if uri not in empty or uri in there}

    def staged(self) -> dict[str, FileFacts]:
        """What `list_staged` says of this folder."""
        return list_staged(self.uri)

    def remove_files(self, places: Sequence[str]) -> None:
        """Remove files of this folder, in their order; one that is gone already is no error.

        The fence is asked before the first one, and now and then.
        """
        for start in range(0, len(places), _BETWEEN_FENCES):
            self.fence()
            remove_files(places[start : start + _BETWEEN_FENCES], self.options)
