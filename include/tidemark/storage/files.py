"""Read, write, stat, list and remove files below a root: local paths and URIs alike, by obstore.

A place is an absolute path, taken as it is, or a URI (`file:`, `s3:`, `gs:`, `abfs:` …), which
is percent-encoded as URIs are (so are the ones that Spark writes down). Options have the names
of delta-rs. A write is atomic: nobody sees half a file.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from tidemark.errors import LinkLoop, StorageUnavailable
from tidemark.pipeline.instants import in_calendar, instant_of
from tidemark.pipeline.settings import storage_options
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import is_uri

Options = Mapping[str, str]
Asked = TypeVar("Asked")
Told = TypeVar("Told")
# Each request waits for its store; this many wait at once.
_AT_ONCE = 16
# For fewer no threads are started.
_FEW = 4
_CHUNK = 8 * 1024 * 1024
# obstore appends a dump of its own structures after a blank line.
_DUMP = "\n\n"
# As obstore's client says it of a host without an address, or one that takes no connection.
_UNREACHED = "error sending request"
# As the system says it of a link (ELOOP), and obstore's walk of a folder.
_LOOP = re.compile("Too many levels of symbolic links|File system loop found")
# What obstore and delta-rs write of a local file, before they give it its name.
STAGED = re.compile(r"#\d+$")


class FileMissing(StorageUnavailable):
    """There is no file at a place that was to be read."""


class FileInTheWay(StorageUnavailable):
    """A file that was to be created exists: another writer was first."""


@dataclass(frozen=True)
class FileFacts:
    """What a store tells of a file without reading it. The time is the store's, in UTC; one that a
    datetime cannot have is the nearest that it can. `e_tag` is another one once the content is;
    None where the store tells none."""

    size: int
    modified: datetime
    e_tag: str | None = field(default=None, compare=False)


def read_bytes(uri: str, options: Options) -> bytes:
    """All of a file; FileMissing when there is none."""
    return read_tagged(uri, options)[0]


def read_tagged(uri: str, options: Options) -> tuple[bytes, str | None]:
    """All of a file, and its entity tag, None where the store tells none; FileMissing when there is
    no file."""
    store, path = _located(uri, options)
    with _naming(uri, "read"):
        found = obstore.get(store, path)
        return bytes(found.bytes()), found.meta.get("e_tag")


def read_chunks(uri: str, options: Options) -> Iterator[bytes]:
    """All of a file, piece by piece, in its order; FileMissing when there is none."""
    store, path = _located(uri, options)
    with _naming(uri, "read"):
        found = obstore.get(store, path)
    yield from _chunks_of(uri, found)


def read_end(uri: str, size: int, length: int, options: Options) -> bytes:
    """The last `length` bytes of a file of `size` bytes, or all of a smaller one; FileMissing
    when there is none."""
    store, path = _located(uri, options)
    start = max(0, size - length)
    with _naming(uri, "read"):
        return bytes(obstore.get_range(store, path, start=start, end=size))


@dataclass(frozen=True)
class OpenedFile:
    """A file from some byte on: its pieces, in their order, and what it is now. A local one may be
    another after a piece than before; a store answers from one state of a file, and tells that."""

    chunks: Iterator[bytes]
    facts: Callable[[], FileFacts]


@contextmanager
def open_file(uri: str, start: int, options: Options) -> Iterator[OpenedFile]:
    """Read a file from a byte on. A local one is read by the file system, and what that says is
    raised as it is (OSError); FileMissing and StorageUnavailable of others."""
    if is_local(uri):
        with Path(local_path(uri)).open("rb") as file:
            file.seek(start)
            # What is read is asked, whatever file has its name by now.
            yield OpenedFile(
                iter(partial(file.read, _CHUNK), b""),
                lambda: _local_facts(os.fstat(file.fileno())),
            )
        return
    store, path_in_store = _located(uri, options)
    with _naming(uri, "read"):
        # An end is not given: what the store holds beyond the planned size has to be seen.
        found = obstore.get(store, path_in_store, options={"range": {"offset": start}})
    facts = _facts(found.meta)
    yield OpenedFile(_chunks_of(uri, found), lambda: facts)


def _chunks_of(uri: str, found: obstore.GetResult) -> Iterator[bytes]:
    with _naming(uri, "read"):
        for chunk in found.stream(min_chunk_size=_CHUNK):
            yield bytes(chunk)


def write_bytes(uri: str, data: bytes, options: Options, create_only: bool = False) -> None:
    """Write a whole file at once, and its folders where they are missing.

    With `create_only`, FileInTheWay when the file exists: of several writers one succeeds.
    """
    store, path = _located(uri, options)
    with _naming(uri, "written"):
        # One request: a multipart upload could not be conditional.
        obstore.put(
            store, path, data, mode="create" if create_only else "overwrite", use_multipart=False
        )


def copy_file(uri: str, to: str, options: Options) -> None:
    """Copy a whole file, over one that is there; FileMissing when there is none.

    Within an object store the store copies it. A local file is read and written: obstore would
    make a second name of the same bytes, and a change of the one would be one of the other.
    """
    if is_local(uri) or is_local(to) or _authority(uri) != _authority(to):
        write_bytes(to, read_bytes(uri, options), options)
        return
    (store, path), (_, path_to) = _located(uri, options), _located(to, options)
    with _naming(uri, "copied"):
        obstore.copy(store, path, path_to)


def stat_files(uris: Iterable[str], options: Options) -> dict[str, FileFacts | None]:
    """Size and time of each file; None for those that do not exist."""
    asked = list(dict.fromkeys(uris))
    return at_once(lambda uri: _stat(uri, options), asked, asked[0]) if asked else {}


def is_there(uri: str, options: Options) -> bool:
    """Does a file exist?"""
    return Path(local_path(uri)).exists() if is_local(uri) else _stat(uri, options) is not None


def at_once(ask: Callable[[Asked], Told], of: Sequence[Asked], uri: str) -> dict[Asked, Told]:
    """What a store tells of each, several waiting for it at once; of a disk they would wait for
    each other. `uri` is in that store. Raises the first error."""
    if len(of) < _FEW or is_local(uri):
        return {one: ask(one) for one in of}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(of, pool.map(ask, of), strict=True))


def e_tag_of(uri: str, options: Options) -> str | None:
    """The entity tag that a store tells of a file; None where it tells none. FileMissing when there
    is no file."""
    store, path = _located(uri, options)
    with _naming(uri, "read"):
        return obstore.head(store, path)["e_tag"]


def list_files(uri: str, options: Options) -> dict[str, FileFacts]:
    """All files below a folder, at any depth, by their place; none where there is no folder.

    Places come as they went in: paths below a path, percent-encoded URIs below a URI.
    """
    store, path = _located(uri, options)
    with _naming(uri, "listed"):
        found = [meta for batch in obstore.list(store, path) for meta in batch]
    if not is_uri(uri):
        return {f"/{meta['path']}": _facts(meta) for meta in found}
    return {f"{_authority(uri)}/{quote(meta['path'])}": _facts(meta) for meta in found}


def list_staged(uri: str) -> dict[str, FileFacts]:
    """What writers that died, or write now, have not given its name yet of files below a folder, by
    its place. Listings leave it out; object storage has none of it."""
    if not is_local(uri):
        return {}
    found = [
        f"{folder}/{name}"
        for folder, _, names in os.walk(local_path(uri))
        for name in names
        if STAGED.search(name)
    ]
    places = (f"{_authority(uri)}{quote(path)}" if is_uri(uri) else path for path in found)
    return {place: facts for place, facts in stat_files(places, {}).items() if facts is not None}


def files_behind(uri: str, name: str, options: Options) -> dict[str, FileFacts]:
    """The files of a folder whose names sort behind a name, those of its folders too, by their
    names from the folder on: one request, if they are few."""
    store, path = _located(uri, options)
    with _naming(uri, "listed"):
        pages = obstore.list(store, path, offset=f"{path}/{name}")
        found = [meta for page in pages for meta in page]
    return {str(meta["path"]).removeprefix(f"{path}/"): _facts(meta) for meta in found}


def list_folder(uri: str, options: Options) -> dict[str, bool]:
    """The names in a folder itself, and whether each is a folder; none where there is no folder.

    For a look at a place whose files may be too many to be listed.
    """
    store, path = _located(uri, options)
    with _naming(uri, "listed"):
        found = obstore.list_with_delimiter(store, path)
    folders = {prefix.rstrip("/").rpartition("/")[2]: True for prefix in found["common_prefixes"]}
    files = {str(meta["path"]).rpartition("/")[2]: False for meta in found["objects"]}
    return folders | files


def remove_files(uris: Iterable[str], options: Options) -> None:
    """Remove files; one that is gone already is no error."""
    for uri in uris:
        store, path = _located(uri, options)
        with suppress(FileMissing), _naming(uri, "removed"):
            # obstore removes no file of such a name.
            if is_local(uri) and STAGED.search(path):
                Path(local_path(uri)).unlink()
            else:
                obstore.delete(store, path)


def name_below(uri: str, place: str) -> str:
    """A file's name below a folder's place, as delta-rs tells it: without any encoding."""
    if is_uri(uri):
        uri, place = unquote(uri), unquote(place)
    return place.removeprefix(f"{uri}/")


def remove_folder(uri: str, options: Options) -> None:
    """Remove a folder with all that is in it; one that is not there is no error."""
    if is_local(uri):
        with _naming(uri, "removed"), suppress(FileNotFoundError):
            shutil.rmtree(local_path(uri))
        return
    remove_files(list_files(uri, options), options)


def rename_folder(uri: str, to: str) -> None:
    """Give a folder of this machine another name, all of it at once; nothing may be there."""
    with _naming(uri, "renamed"):
        Path(local_path(uri)).rename(local_path(to))


def _stat(uri: str, options: Options) -> FileFacts | None:
    try:
        with _naming(uri, "read"):
            if is_local(uri):
                # Without opening the file, as obstore would: it may not be readable.
                return _local_facts(Path(local_path(uri)).stat())
            store, path = _located(uri, options)
            return _facts(obstore.head(store, path))
    except FileMissing:
        return None


def _local_facts(found: os.stat_result) -> FileFacts:
    milliseconds, rest = divmod(found.st_mtime_ns, 1_000_000)
    if (nearest := in_calendar(milliseconds)) != milliseconds:
        return FileFacts(found.st_size, instant_of(nearest))
    return FileFacts(
        found.st_size, instant_of(milliseconds) + timedelta(microseconds=rest // 1_000)
    )


def _facts(meta: Any) -> FileFacts:
    return FileFacts(meta["size"], meta["last_modified"], meta.get("e_tag"))


def _located(uri: str, options: Options) -> tuple[ObjectStore, str]:
    """The store of a place, and the path within it."""
    if is_local(uri):
        return _store("file:///", frozenset()), local_path(uri).lstrip("/")
    path = unquote(urlsplit(uri).path).lstrip("/")
    with _naming(uri, "reached"):
        return _store(_authority(uri), frozenset(options.items())), path


def _authority(uri: str) -> str:
    parts = urlsplit(uri)
    scheme = "s3" if parts.scheme == "s3a" else parts.scheme
    return f"{scheme}://{parts.netloc}"


@lru_cache(maxsize=32)
def _store(root: str, options: frozenset[tuple[str, str]]) -> ObjectStore:
    """One client for each store: connections are kept open between calls."""
    if root == "file:///":
        return LocalStore("/")
    family = "AZURE_" if root.startswith(("abfs", "az")) else "AWS_" if "s3" in root[:3] else "-"
    config: Any = {name: value for name, value in options if name.startswith(family)}
    # obstore 0.12 takes this one as an option of its client only, and panics on it elsewhere.
    plain_http = str(config.pop("AWS_ALLOW_HTTP", "false")).lower() == "true"
    seconds = timedelta(seconds=storage_options.STORE_SECONDS)
    client: Any = {"allow_http": plain_http, "timeout": seconds}
    # By the first retry after it the limit is over: what is silent is asked once.
    retry: Any = {"retry_timeout": seconds - timedelta(seconds=1)}
    return from_url(root, config=config, client_options=client, retry_config=retry)


@contextmanager
def _naming(uri: str, done: str) -> Iterator[None]:
    """Turn what a store says into an error that names the place."""
    try:
        yield
    except (FileNotFoundError, NotFoundError):
        raise FileMissing(f"{uri} could not be {done}: there is no such file.") from None
    except (FileExistsError, AlreadyExistsError):
        raise FileInTheWay(f"{uri} was not written: it exists already.") from None
    except (BaseError, OSError, ValueError) as error:
        reason = unanswered(error) or str(error).split(_DUMP)[0].strip()
        if _LOOP.search(reason):
            raise LinkLoop(
                f"{uri} could not be {done}: a link leads back to itself ({reason}). Nothing was "
                "changed. Remove the link, or bring back from a backup what stood there."
            ) from error
        raise StorageUnavailable(f"{uri} could not be {done}: {reason}") from error


def why_not_reached(root: str, options: Options) -> StorageUnavailable | None:
    """What is said of a store that cannot be reached, or is silent; None of one that answers,
    whatever it says, and of a local root."""
    try:
        if not is_local(root):
            _stat(f"{root}/_", options)
    except StorageUnavailable as error:
        cause = error.__cause__
        if isinstance(cause, Exception) and (unanswered(cause) or _UNREACHED in str(cause)):
            return error
    return None


def unanswered(error: Exception) -> str | None:
    """What an error of obstore's or delta-rs's says of a store that was silent until the time
    limit; None where it says something else."""
    if not re.search(r"kind: Timeout|timed out", str(error)):
        return None
    return (
        f"the store did not answer within {storage_options.STORE_SECONDS} s. Is it up, and can "
        "this machine reach it? Then try again."
    )
