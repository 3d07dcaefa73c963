"""The first rows of a pipeline's source, and a pipeline that reads them below another root."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from tidemark.errors import SampleUnusable
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import has_pattern, split_files
from tidemark.sources.files.lines import read_lines
from tidemark.sources.files.unread import source_files


@dataclass(frozen=True)
class FirstRows:
    """How many lines of how many files were taken, and why the rest of a file was not."""

    lines: int
    files: int
    notes: tuple[str, ...]


def take_first_rows(pipeline: Pipeline, settings: Settings, limit: int, root: Path) -> FirstRows:
    """Copy the first `limit` lines of the source's files, by name, below `root`.

    Nothing but the source is read, and nothing but `root` written. SampleUnusable where the source
    has no line.
    """
    taken, used, notes = 0, 0, []
    for number, place in enumerate(_places(pipeline, settings)):
        if taken == limit:
            break
        name = place.rpartition("/")[2].removesuffix(".gz")
        target = root / _landing(pipeline.name) / f"{number:06}" / name
        target.parent.mkdir(parents=True)
        try:
            lines = _copy(place, settings.storage_options, limit - taken, target)
        except SampleUnusable as error:
            notes.append(str(error))
            continue
        taken, used = taken + lines, used + 1
    if not taken:
        why = " ".join(notes) or f"{pipeline.source.files} has no file with a line."
        raise SampleUnusable(f"{pipeline.name} has no row to try: {why} Nothing was run.")
    return FirstRows(taken, used, tuple(notes))


def write_pipeline(pipeline: Pipeline, folder: Path) -> Path:
    """The pipeline's file with the source's copy as its source. JSON is YAML."""
    content = pipeline.model_dump(mode="json", exclude={"name"}, exclude_unset=True)
    content["source"]["files"] = f"{_landing(pipeline.name)}/**/*"
    file = folder / f"{pipeline.name}.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def _landing(name: str) -> str:
    """A folder that no pipeline of this name keeps tables in."""
    return f"{name}_source"


def _places(pipeline: Pipeline, settings: Settings) -> list[str]:
    parts = split_files(pipeline.source.files)
    folder = Places(settings.root, pipeline.name).source(parts.folder)
    if is_local(folder) and not Path(local_path(folder)).exists() and not has_pattern(folder):
        raise SampleUnusable(
            f"The folder {local_path(folder)} does not exist, and so no row to try. Nothing was "
            "run. Make it, or correct source.files in the pipeline or root in the settings."
        )
    found = source_files(replace(parts, folder=folder), settings.storage_options)
    return sorted(one if is_local(folder) else quote(one, safe=":/") for one in found)


def _copy(place: str, options: Mapping[str, str], limit: int, target: Path) -> int:
    """Copy lines; where one cannot be read, none of the file is left."""
    count = 0
    try:
        with target.open("wb") as out:
            for line in islice(read_lines(place, options), limit):
                out.write(line + b"\n")
                count += 1
    except SampleUnusable:
        target.unlink()
        raise
    return count
