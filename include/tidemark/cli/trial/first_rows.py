"""The first rows of a pipeline's source, and a pipeline that reads them below another root."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemark.errors import SampleUnusable
from tidemark.pipeline.fold_rules import write_fold_code
from tidemark.pipeline.model import Pipeline, Source
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.environment import PREFIX
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.source_files import is_uri
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import FirstRows


def take_first_rows(pipeline: Pipeline, settings: Settings, most: int, root: Path) -> FirstRows:
    """The first `most` rows of the source, as a source that a pipeline below `root` reads.

    Nothing but the source is read, and nothing but `root` written. SampleUnusable where the source
    has no row, or the pipeline joins: there are no rows of the other one below `root`.
    """
    if pipeline.partners:
        raise SampleUnusable(
            f"{pipeline.name} joins with {', '.join(sorted(pipeline.partners))}, and only its own "
            "source is tried: nothing could match. Nothing was run. Try a copy of the file without "
            "the table that joins."
        )
    # A folder that no pipeline of this name keeps tables in.
    copies = root / f"{pipeline.name}_source"
    first = source_handle(pipeline, settings).first_rows(most, copies)
    if not first.rows:
        none = f"{pipeline.source.label} has no {first.part} with a {first.row}."
        why = " ".join(first.notes) or none
        raise SampleUnusable(f"{pipeline.name} has no row to try: {why} Nothing was run.")
    return first


def settings_of_trial(settings: Settings, root: Path) -> Settings:
    """The pipeline's settings, but for the root. A topic's and a table's first rows are read where
    they are, which is outside of it."""
    sources = (*settings.sources, settings.root)
    return settings.model_copy(update={"root": str(root), "sources": sources})


def trial_environment(
    variables: Mapping[str, str], settings: Settings, root: Path, file: Path
) -> dict[str, str]:
    """The environment in which `tidemark run` runs the file below the root: these variables, of
    which the trial's own win over the settings file."""
    own = {
        f"{PREFIX}ROOT": str(root),
        f"{PREFIX}PIPELINES": str(file.parent),
        f"{PREFIX}SOURCES": json.dumps(settings_of_trial(settings, root).sources),
    }
    # Settings are read from variables in either case, and from entries or files behind `__`.
    others = {name: of for name, of in variables.items() if name.upper().split("__")[0] not in own}
    return others | own


def write_pipeline(
    pipeline: Pipeline, source: Mapping[str, Any], folder: Path, settings: Settings
) -> Path:
    """The pipeline's file with these entries for where its rows come from; lookups are read
    where they are. JSON is YAML."""
    content = pipeline.content()
    shared = {key: value for key, value in content["source"].items() if key in Source.model_fields}
    content["source"] = {**source, **shared}
    for name, lookup in pipeline.lookup.items():
        place = Places(settings.root, pipeline.name).source(lookup.place)
        kind = "table" if lookup.file is None else "file"
        content["lookup"][name][kind] = place if is_uri(place) else f"file://{place}"
    file = folder / f"{pipeline.name}.yaml"
    file.parent.mkdir(parents=True)
    write_fold_code(pipeline, file.parent)
    file.write_text(json.dumps(content), encoding="utf-8")
    return file
