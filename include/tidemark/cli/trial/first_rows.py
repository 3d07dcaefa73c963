"""The first rows of a pipeline's source, and a pipeline that reads them below another root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tidemark.errors import SampleUnusable
from tidemark.pipeline.fold_rules import write_fold_code
from tidemark.pipeline.kafka_columns import places_in
from tidemark.pipeline.model import KafkaSource, Pipeline, Source
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.kinds import placed_source


@dataclass(frozen=True)
class FirstRows:
    """How many lines of how many files were taken, and why the rest of a file was not."""

    lines: int
    files: int
    notes: tuple[str, ...]


def take_first_rows(pipeline: Pipeline, settings: Settings, limit: int, root: Path) -> FirstRows:
    """Copy the first `limit` lines of the source, a file for each of its parts, below `root`.

    Nothing but the source is read, and nothing but `root` written. SampleUnusable where the source
    has no line, or the pipeline joins: there are no rows of the other one below `root`.
    """
    if pipeline.partners:
        raise SampleUnusable(
            f"{pipeline.name} joins with {', '.join(sorted(pipeline.partners))}, and only its own "
            "source is tried: nothing could match. Nothing was run. Try a copy of the file without "
            "the table that joins."
        )
    taken, used, notes = 0, 0, []
    source = placed_source(pipeline, settings)
    for number, (name, lines) in enumerate(source.samples()):
        if taken == limit:
            break
        target = root / _landing(pipeline.name) / f"{number:06}" / name
        target.parent.mkdir(parents=True)
        try:
            copied = _copy(islice(lines, limit - taken), target)
        except SampleUnusable as error:
            notes.append(str(error))
            continue
        taken, used = taken + copied, used + 1
    if not taken:
        why = " ".join(notes) or f"{pipeline.source.told} has no file with a line."
        raise SampleUnusable(f"{pipeline.name} has no row to try: {why} Nothing was run.")
    return FirstRows(taken, used, tuple(notes))


def write_pipeline(pipeline: Pipeline, folder: Path) -> Path:
    """The pipeline's file with the source's copy as its source. JSON is YAML."""
    content = pipeline.model_dump(mode="json", exclude={"name", "partners"}, exclude_unset=True)
    shared = {key: value for key, value in content["source"].items() if key in Source.model_fields}
    content["source"] = {"files": f"{_landing(pipeline.name)}/**/*", **shared}
    if isinstance(pipeline.source, KafkaSource):
        columns = {**shared["columns"], **places_in(json.dumps(content))}
        content["source"] = {"of_messages": True, **content["source"], "columns": columns}
    file = folder / f"{pipeline.name}.yaml"
    for table in content["tables"].values():
        table.pop("code", None)
    file.parent.mkdir(parents=True)
    write_fold_code(pipeline, file.parent)
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def _landing(name: str) -> str:
    """A folder that no pipeline of this name keeps tables in."""
    return f"{name}_source"


def _copy(lines: Iterator[bytes], target: Path) -> int:
    """Copy lines; where one cannot be read, none of the part is left."""
    count = 0
    try:
        with target.open("wb") as out:
            for line in lines:
                out.write(line + b"\n")
                count += 1
    except SampleUnusable:
        target.unlink()
        raise
    return count
