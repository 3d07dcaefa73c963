"""Is there a checkpoint at a place? What there is instead, in a sentence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidemark.errors import NotACheckpoint, StorageUnavailable
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import is_uri
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts

# What the engine makes in a checkpoint's folder (StreamingCheckpointConstants). A folder with one
# of them is taken for a checkpoint, so that one that lost the others can be judged.
_FOLDERS = ("offsets", "commits", "state", "sources")
_GIVE = (
    "Give the folder that a query was started with as `checkpointLocation`, or the name of a "
    "pipeline."
)
_SHOWN = 5
_LOOKED_AT = 200


def checkpoint_files(place: FilePlace) -> dict[str, FileFacts]:
    """All files of the checkpoint at a place, by their names below it: one listing.

    NotACheckpoint where the place is none. A folder that holds other things is not listed to its
    end: it may be a table, or a disk.
    """
    if is_local(place.uri):
        _check_local(place.uri)
    inside = place.names()
    if not looks_like_checkpoint(inside):
        raise NotACheckpoint(f"{place.uri} {_what_it_is(place, inside)}")
    return named_files(place)


def named_files(place: FilePlace) -> dict[str, FileFacts]:
    """All files below a folder, by their names below it."""
    base = _path(place.uri).rstrip("/")
    found = place.real_files().items()
    return {_path(uri).removeprefix(f"{base}/"): facts for uri, facts in found}


def looks_like_checkpoint(inside: Mapping[str, bool]) -> bool:
    """Is it a checkpoint, by the names in a folder (True for a folder)?"""
    if "_delta_log" in inside:
        return False
    return inside.get("metadata") is False or any(inside.get(name) is True for name in _FOLDERS)


def _check_local(uri: str) -> None:
    path = Path(local_path(uri))
    try:
        path.stat()
    except FileNotFoundError:
        raise NotACheckpoint(f"{uri} does not exist. {_GIVE}") from None
    except (PermissionError, NotADirectoryError) as error:
        raise NotACheckpoint(
            f"{uri} could not be looked at ({error.strerror}). Give a folder that you may read, or "
            "run this as the user that the query runs as."
        ) from error
    if not path.is_dir():
        raise NotACheckpoint(
            f"{uri} is a file, and a checkpoint is a folder. {_around(path) or _GIVE}"
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise NotACheckpoint(
            f"{uri} may not be read: permission denied. Get the right to read it, or run this as "
            "the user that the query runs as."
        )


def _what_it_is(place: FilePlace, inside: Mapping[str, bool]) -> str:
    if not inside:
        empty = "is empty" if is_local(place.uri) else "does not exist or is empty"
        return f"{empty}: no query has started here. {_GIVE}"
    if "_delta_log" in inside:
        return (
            "is a Delta table, not a checkpoint. Give the checkpoint of the query that writes it "
            "or reads it: the folder in its `checkpointLocation`."
        )
    if found := _below(place, inside):
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        return f"is no checkpoint, but holds some. Give one of them: {shown}."
    if is_local(place.uri) and (above := _around(Path(local_path(place.uri)))):
        return f"is no checkpoint. {above}"
    return (
        "is no checkpoint: it has no `metadata` file, and no folder `offsets`, `commits` or "
        f"`state`. {_GIVE}"
    )


def _below(place: FilePlace, inside: Mapping[str, bool]) -> list[str]:
    """Checkpoints up to three folders below, found by looking at a bounded number of folders."""
    found: list[str] = []
    waiting = [(place.folder(name), 1) for name, is_folder in inside.items() if is_folder]
    for looked_at, (folder, depth) in enumerate(waiting):
        if looked_at == _LOOKED_AT or len(found) > _SHOWN:
            break
        try:
            names = folder.names()
        except StorageUnavailable:
            continue
        if looks_like_checkpoint(names):
            found.append(folder.uri)
        elif depth < 3 and "_delta_log" not in names:
            waiting += [(folder.folder(name), depth + 1) for name, below in names.items() if below]
    return found


def _around(path: Path) -> str | None:
    """What to give where the place lies inside a checkpoint."""
    for above in list(path.parents)[:4]:
        names = {entry.name: entry.is_dir() for entry in above.iterdir()} if above.is_dir() else {}
        if looks_like_checkpoint(names) and {"offsets", "metadata"} <= names.keys():
            return f"It lies in a checkpoint; give that: {above}."
    return None


def _path(place: str) -> str:
    """The path of a place, decoded, whatever the scheme of the store is called."""
    return unquote(urlsplit(place).path) if is_uri(place) else place
