"""Where a sample lies: the files to look at, and the `source.files` of a pipeline over such."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tidemark.errors import SampleUnusable
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import has_pattern, is_uri, split_files
from tidemark.sources.files.unread import source_files

# Other files of the source will end as this one: `orders-1.json.gz` is one of `*.json*`.
_ENDING = re.compile(r"(?<=.)\.(json|ndjson|csv|tsv|parquet|avro|log|txt|gz)")


@dataclass(frozen=True)
class SamplePlaces:
    """`read`: the places of the files to look at, by name. `source`: `source.files` for them and
    those to come: below the root where they lie there, else a URI. `others`: how many further files
    it names now."""

    read: tuple[str, ...]
    source: str
    others: int


def find_files(given: str, settings: Settings, pipeline: str) -> SamplePlaces:
    """The files that a path, a pattern or a URI names; SampleUnusable where there is none."""
    asked = _files_of_source(given, settings)

    def listed(files: str) -> list[str]:
        parts = split_files(files)
        place = Places(settings.root, pipeline).source(parts.folder)
        _check_folder(given, place)
        found = source_files(replace(parts, folder=place), settings.storage_options)
        return sorted(one if is_local(place) else quote(one, safe=":/") for one in found)

    source = asked if has_pattern(asked) else _of_its_kind(asked)
    try:
        found = listed(asked)
        others = len(listed(source)) - len(found) if found and source != asked else 0
    except ValueError as error:
        raise SampleUnusable(f"--from {given}: {error}. Nothing was written.") from error
    if not found:
        raise SampleUnusable(f"--from {given}: there is no such file. Nothing was written.")
    return SamplePlaces(tuple(found), source, others)


def _files_of_source(given: str, settings: Settings) -> str:
    """The text of `source.files` that names them."""
    path = "" if is_uri(given) else _absolute(given)
    if Path(path, "_delta_log").is_dir():
        raise SampleUnusable(
            f"--from {given} is a Delta table: name it as delta:{given}. Nothing was written."
        )
    if path and Path(path).is_dir():
        raise SampleUnusable(
            f"--from {given} is a folder. Name a file in it, or all of a kind, in quotes: "
            f"'{given.rstrip('/')}/*.json*'. Nothing was written."
        )
    is_one = path and not has_pattern(path)
    if is_one and Path(path).parent.is_dir() and not Path(path).exists():
        raise SampleUnusable(
            f"--from {given}: there is no such file: {path}. Nothing was written. Name one that is "
            "there, or several by a pattern in quotes."
        )
    try:
        return place_in_source(given, settings)
    except ValueError as error:
        raise SampleUnusable(f"--from {given} {error} Nothing was written.") from error


def place_in_source(given: str, settings: Settings) -> str:
    """A path or a URI as a pipeline's source names it: from the root, where it lies there, else by
    a URI. ValueError where none can name it."""
    if is_uri(given):
        return given
    path = _absolute(given)
    root = local_path(settings.root) if settings.is_local else None
    if root and path.startswith(f"{root}/"):
        return path.removeprefix(f"{root}/")
    if found := re.search("[%#]", path):
        raise ValueError(
            f"lies outside of the root, and has {found[0]!r} in its path, which the URI of a "
            f"source cannot have. Rename it, or land it below {settings.root}."
        )
    # Not encoded: Hadoop takes the path of a URI as it is written.
    return f"file://{path}"


def _absolute(given: str) -> str:
    return os.path.normpath(Path(given).expanduser().absolute())


def _check_folder(given: str, folder: str) -> None:
    if is_local(folder) and not has_pattern(folder):
        path = local_path(folder).removesuffix("/")
        if not Path(path).is_dir():
            raise SampleUnusable(f"--from {given}: there is no folder {path}. Nothing was written.")


def _of_its_kind(asked: str) -> str:
    folder, _, name = asked.rpartition("/")
    ending = _ENDING.search(name)
    return f"{folder}/*{ending[0]}*" if ending else asked
