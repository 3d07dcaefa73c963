"""A root that was moved, copied or mounted elsewhere: its log has former places.

The engine knows a file by its whole URI, so at another root each would be read a second time. Once
somebody accepts the new place, the log's lists name the same files below the root that is.

The life of that, under the pipeline's lease:
1. it is noted who accepts it and why (`sources/notes.py`);
2. list by list is written anew, the compacted ones too, its Hadoop checksum removed first: a file
   without one is read as it is.
Killed between two lists, files of the old root are still found, and runs stop: repeat it.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from os.path import normpath
from urllib.parse import quote, unquote, urlsplit

from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.reading.checksums import twin_of
from tidemark.checkpoint.reading.log_formats import NotTheFormat, json_object
from tidemark.commit_point import commit_point
from tidemark.pipeline.settings.storage_options import is_local, local_path, spark_uri
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.pattern import file_pattern, fixed_folder
from tidemark.sources.files.unread import COMPACT, log_lists, same_place
from tidemark.storage.files import Options, remove_files, stat_files, write_bytes

_LOG = "sources/0"
# Where the names in a list do not tell the root, so many of its files are looked for here.
_LOOKED_FOR = 100
# What Java leaves as it is in the path of a URI that it is given in parts (class java.net.URI).
_PLAIN = "/-_.!~*'():@&=+$,;"


def former_roots(
    source: SourceFiles, root: str, ingest: Checkpoint
) -> tuple[tuple[str, ...], int, bool]:
    """The roots, as `same_place` has them, below which the log's files lie that do not lie below
    this one; how many files; whether each of them lies below one root only, as far as can be told.

    `source.folder` is below the root. Raises CheckpointUnreadable.
    """
    here, folder = _place(root), _folder(source)
    listed = (file for name in log_lists(ingest) for file in ingest.listed_files(name))
    places = {same_place(file.uri) for file in listed}
    elsewhere = [one for one in places if folder in one and not one.startswith(here + folder)]
    votes = Counter(former for one in elsewhere for former in _splits(one, folder))
    common = [former for former, number in votes.items() if number == len(elsewhere)]
    if len(common) > 1:
        common = _likely(source, root, common, elsewhere, ingest.options)
    # Without a common one a former move was not finished: each file has its own.
    found = common or sorted({former for one in elsewhere for former in _splits(one, folder)})
    parted = all(sum(one.startswith(f"{old}{folder}") for old in found) == 1 for one in elsewhere)
    return tuple(found), len(elsewhere), parted


def know_files_here(
    source: SourceFiles, roots: Sequence[str], root: str, ingest: Checkpoint
) -> None:
    """Let the log's files below these roots be those of the same path below this one.

    The lists that `former_roots` reads come last: until they are written it finds the move."""
    read = log_lists(ingest)
    names = [str(one) for one in ingest.batches(_LOG)]
    names += [f"{one}{COMPACT}" for one in ingest.batches(_LOG, COMPACT)]
    for name in [*(one for one in names if one not in read), *read]:
        text = ingest.read(f"{_LOG}/{name}").decode(errors="surrogateescape")
        if (new := _moved(text, source, roots, root)) != text:
            _write_list(ingest, name, new.encode(errors="surrogateescape"))


@commit_point(
    "files known below another root",
    after_a_kill="before: runs stop as before; after: they stop until all lists are written, which "
    "the acceptance does when it is repeated",
)
def _write_list(ingest: Checkpoint, name: str, data: bytes) -> None:
    place = ingest.below(f"{_LOG}/{name}")
    ingest.fence()
    remove_files([twin_of(place)], ingest.options)
    write_bytes(place, data, ingest.options)


def _moved(text: str, source: SourceFiles, roots: Sequence[str], root: str) -> str:
    """A list with the new places; as it is where it is none: one that no engine reads any more."""
    first, *lines = text.split("\n")
    moved = []
    for line in lines:
        try:
            entry = json_object(line) if line else {}
        except NotTheFormat:
            return text
        path = str(entry.get("path", ""))
        here = known_here(source, path, roots, root)
        moved.append(line if here == path else _line({**entry, "path": here}))
    return "\n".join([first, *moved])


def known_here(source: SourceFiles, path: str, roots: Sequence[str], root: str) -> str:
    """A file's URI as the engine writes it below this root, where it lies below one of `roots`;
    any other stays."""
    here, folder, place = _place(root), _folder(source), same_place(path)
    old = [] if place.startswith(here + folder) else roots
    former = next((one for one in old if place.startswith(one + folder)), None)
    return path if former is None else _as_spark_has_it(root, place.removeprefix(former))


def _line(entry: Mapping[str, object]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _folder(source: SourceFiles) -> str:
    return f"/{fixed_folder(source.folder)}/"


def _as_spark_has_it(root: str, below: str) -> str:
    """The URI that the engine writes for a file: it is compared as text."""
    if is_local(root):
        return f"file://{_in_java(_place(root) + below)}"
    parts = urlsplit(spark_uri(root))
    return f"{parts.scheme}://{parts.netloc}{_in_java(unquote(parts.path).rstrip('/') + below)}"


def _in_java(path: str) -> str:
    return "".join(one if _is_kept(one) else quote(one, safe=_PLAIN) for one in path)


def _is_kept(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) not in (
        "Zs", "Zl", "Zp", "Cc",
    )  # fmt: skip


def _splits(place: str, folder: str) -> list[str]:
    """All roots that a place may lie below: its folder's name may be in it twice."""
    return [place[:at] for at in range(len(place)) if place.startswith(folder, at)]


def _likely(
    source: SourceFiles, root: str, roots: Sequence[str], places: Sequence[str], options: Options
) -> list[str]:
    """Those of several below which the pattern finds the files, or of which files lie here."""
    pattern = file_pattern(source)
    names = {one: [place.removeprefix(one + _folder(source)) for place in places]
             for one in roots}  # fmt: skip
    named = [one for one in roots if any(pattern.takes(name.split("/")) for name in names[one])]
    if len(named) == 1:
        return named
    some = sorted(places)[:_LOOKED_FOR]
    return [one for one in named or roots if any(_here(root, one, some, options).values())]


def _here(
    root: str, former: str, places: Sequence[str], options: Options
) -> Mapping[str, object | None]:
    below = [one.removeprefix(former) for one in places]
    if is_local(root):
        return stat_files([_place(root) + one for one in below], options)
    return stat_files([f"{root.rstrip('/')}{quote(one)}" for one in below], options)


def _place(root: str) -> str:
    place = same_place(root)
    return (normpath(local_path(root)) if is_local(root) else place).rstrip("/")
