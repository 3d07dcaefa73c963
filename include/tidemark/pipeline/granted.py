"""What the settings grant to pipelines: places outside of the root that they read, and Python of
their own.

Whoever writes a pipeline's file is trusted with less than who operates the platform, and a run has
the platform's keys. Places are compared by their names, without a look at any: links are followed
by who reads.
"""

from __future__ import annotations

import json
import re
from itertools import takewhile
from urllib.parse import unquote

from tidemark.errors import PipelineInvalid
from tidemark.pipeline.model import FoldTable, Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import FILE, Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import has_pattern


def check_granted(pipeline: Pipeline, settings: Settings) -> None:
    """PipelineInvalid, with the line of the settings that would grant it, where a pipeline names
    what is not granted. Asked before anything of it is read or run."""
    named = [("source", pipeline.source.named_place)]
    named += [(f"lookup {name}", lookup.place) for name, lookup in pipeline.lookup.items()]
    for what, said in named:
        place = Places(settings.root, pipeline.name).source(said) if said else None
        if place and (why := why_not_granted(place, settings)):
            raise PipelineInvalid(f"The {what} of {pipeline.name}, `{said}`, {why}")
    folds = [name for name, one in pipeline.tables.items() if isinstance(one, FoldTable)]
    if folds and not settings.allow_python:
        raise PipelineInvalid(
            f"The table {folds[0]} of {pipeline.name} is folded by Python of the pipeline's own, "
            "which the settings do not allow: it would run with the platform's keys. Nothing was "
            f"run. Who operates the platform can allow it for all pipelines, in {FILE}: "
            "`allow_python: true`"
        )


def why_not_granted(place: str, settings: Settings) -> str | None:
    """Why no pipeline may read there, and the line that grants it; None where one may."""
    if any(is_below(place, one) for one in (settings.root, *settings.sources)):
        return None
    lines = json.dumps([*settings.sources, _folder_of(place)], ensure_ascii=False)
    return (
        f"lies outside of the root ({settings.root}), at no place that the settings list. Nothing "
        "of it was read. Who operates the platform can let pipelines read it, in "
        f"{FILE}: `sources: {lines}`"
    )


def is_below(place: str, folder: str) -> bool:
    """Does a place lie in a folder, or is it that, by their names?"""
    names, above = _names(place), _names(folder)
    return names[: len(above)] == above and not {".", ".."} & set(map(unquote, names))


def _names(place: str) -> tuple[str, ...]:
    """The store of a place and the names that lead to it, as they are compared."""
    if is_local(place):
        return ("file", *filter(None, local_path(place).split("/")))
    scheme, _, rest = place.partition("://")
    authority, _, path = rest.partition("/")
    same = {"s3a": "s3"}.get(scheme.lower(), scheme.lower())
    return (same, authority, *filter(None, re.split("/|%2f", path, flags=re.IGNORECASE)))


def _folder_of(place: str) -> str:
    """The folders of a place that are no pattern; of a pattern at least the last name goes."""
    folder = place.rpartition("/")[0] if has_pattern(place) else place
    return "/".join(takewhile(lambda name: not has_pattern(name), folder.split("/")))
