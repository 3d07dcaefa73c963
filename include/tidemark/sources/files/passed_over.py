"""Why the engine did not read files that the store lists, and what to do.

Its file source takes each file that it lists and does not have in its log (class FileStreamSource).
So it did not list them: the JVM cannot tell a name, or the folder has the log of a job that writes
files there, which is read instead of listing it (class FileStreamSink, `hasMetadata`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote

from tidemark.errors import SourcePassedOver
from tidemark.pipeline.source_files import SourceFiles, has_pattern
from tidemark.storage.files import Options, list_folder

_SHOWN = 5
_SINK_LOG = "_spark_metadata"


def passed_over(source: SourceFiles, options: Options, places: Sequence[str]) -> SourcePassedOver:
    """The error for these files, which are listed and were not read."""
    encoded = [quote(os.fsencode(place)) for place in places]
    more = "" if len(encoded) <= _SHOWN else f" and {len(encoded) - _SHOWN:,} more"
    return SourcePassedOver(
        f"{len(encoded):,} files of the source are listed by the store and were passed over by the "
        f"engine: {', '.join(encoded[:_SHOWN])}{more} (percent-encoded). What it read is in "
        f"bronze; nothing was published. {_why(source, options, places)} Then run again."
    )


def _why(source: SourceFiles, options: Options, places: Sequence[str]) -> str:
    if source.recursive and not has_pattern(source.folder) and _is_of_a_sink(source, options):
        return (
            f"A Spark job writes to {source.folder} and keeps a log there, {_SINK_LOG}: of such a "
            "folder the engine reads the files that this log has, and no other. Move the others "
            "to a folder of their own: that job has not committed them."
        )
    if not all(place.isascii() for place in places):
        return (
            "The JVM reads no file whose name it cannot tell: one that is no UTF-8 has to be "
            "renamed; where the names are UTF-8, run with a locale that is too, such as "
            "LC_ALL=C.UTF-8."
        )
    return "Why is not known. Land them again under other names, and report it."


def _is_of_a_sink(source: SourceFiles, options: Options) -> bool:
    return _SINK_LOG in list_folder(source.folder, options)
