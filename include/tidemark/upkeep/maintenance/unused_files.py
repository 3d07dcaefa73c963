"""Data files below a table that no version within the retention has.

Which they are says delta-rs, by VACUUM's rules (full): files that the log removed longer ago than
the retention, and files that it never knew, as writers leave them that died before their commit,
once they are that old themselves. Only its dry run is used: it also gives their names, and what is
removed by name is what was shown; and the act of the library would add two commits to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import unquote

from deltalake import DeltaTable

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.source_files import is_uri
from tidemark.storage.files import FileFacts
from tidemark.upkeep.maintenance.plan import Part, Work

_LOG = "_delta_log/"
_HOUR = timedelta(hours=1)


def unused_files(
    table: DeltaTable, uri: str, files: Mapping[str, FileFacts], keep: timedelta
) -> tuple[tuple[str, ...], Part]:
    """The places of what may go, and the numbers. `files` is the listing of the table's folder."""
    names = table.vacuum(
        -(-keep // _HOUR), dry_run=True, enforce_retention_duration=False, full=True
    )
    places = {_below(uri, place): place for place in files}
    going = tuple(places[name] for name in sorted(names) if name in places)
    data = [place for name, place in places.items() if not name.startswith(_LOG)]
    return going, Part(
        Work.UNUSED_FILES,
        len(data),
        sum(files[place].size for place in data),
        len(going),
        sum(files[place].size for place in going),
        f"files that are no part of the table since {duration_text(keep)}",
    )


def _below(uri: str, place: str) -> str:
    """A file's name below the table's place, as delta-rs tells it: without any encoding."""
    if is_uri(uri):
        uri, place = unquote(uri), unquote(place)
    return place.removeprefix(f"{uri}/")
