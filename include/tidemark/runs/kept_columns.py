"""What the file of planned columns holds: what Spark made of a pipeline's file, for all to read.

Its schemas are Spark's JSON of a StructType, which is Delta's own schema format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tidemark.pipeline.model import Pipeline
from tidemark.sources.kinds import row_origin
from tidemark.storage.delta.history import ADDED_TO_CHANGES
from tidemark.storage.files import FileMissing, read_bytes
from tidemark.version import __version__

PLANNED_FROM = "planned_from"


def kept_columns(place: str, options: Mapping[str, str]) -> dict[str, Any]:
    """What the file holds; nothing where it is missing or is no such file."""
    try:
        found = json.loads(read_bytes(place, options))
    except (FileMissing, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_planned_from(kept: Mapping[str, Any], pipeline: Pipeline) -> bool:
    """Was it written for this very pipeline, by this version of Tidemark?"""
    return kept.get(PLANNED_FROM) == fingerprint(pipeline)


def fingerprint(pipeline: Pipeline) -> str:
    """Of all that a pipeline's columns follow from, but for Spark."""
    origin = [one.name for one in row_origin(pipeline)]
    pipeline = pipeline.without_checks()
    of = [pipeline.model_dump_json(), __version__, *ADDED_TO_CHANGES, *origin]
    return hashlib.sha256("\n".join(of).encode()).hexdigest()
