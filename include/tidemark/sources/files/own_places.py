"""Does a source reach what the platform writes? Told when a run begins, for it depends on the root.

Links are followed, as the engine does: a landing folder may be one, and may hold some. So the
folder that a pattern names is looked at as the file system resolves it. A link further down that
leads into the pipeline's own folder is not looked for.
"""

from __future__ import annotations

import os
import re

from tidemark.errors import PipelineInvalid
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.pattern import file_pattern


def check_reaches_no_own_place(source: SourceFiles, places: Places) -> None:
    """PipelineInvalid where files of the pipeline's folder, or of `ops`, could be read as rows.

    `source.folder` is a place. ValueError for a pattern that cannot be read.
    """
    pattern = file_pattern(source)
    for own in (places.folder, places.shared_ops):
        begins, written = _resolved(pattern.folder), _resolved(own)
        if _below(begins, written) is not None or (
            (parts := _below(written, begins)) is not None and pattern.enters(parts)
        ):
            raise PipelineInvalid(
                f"source.files of {places.pipeline} reaches {own}, which the platform writes: its "
                "own tables and results would be read as rows. Nothing was read. Land files in a "
                "folder of their own, and name that one."
            )


def _below(place: str, folder: str) -> list[str] | None:
    """The names that lead from a folder to a place; None where it does not lie there."""
    if place == folder:
        return []
    return place.removeprefix(f"{folder}/").split("/") if place.startswith(f"{folder}/") else None


def _resolved(place: str) -> str:
    if is_local(place):
        return os.path.realpath(local_path(place)).rstrip("/")
    return re.sub("^s3a:", "s3:", place).rstrip("/")
