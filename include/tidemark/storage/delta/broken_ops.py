"""A broken table of `ops/` stops no run: it is set aside, and made anew by whoever writes next.

What stands in it is an account of what other tables hold. It is renamed, not removed, to
`NAME.broken-TIME` beside itself; object storage knows no rename, so there somebody has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import DataDamaged
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.storage.delta.place import TablePlace


def set_broken_aside(
    tables: Mapping[str, TablePlace], say: Callable[[str], object], now: datetime
) -> frozenset[str]:
    """The names of those that were broken and are out of the way now. What was done is said.

    Asked when a run begins: all of a table's files are asked for their sizes, none is opened.
    """
    aside = set()
    for name, place in tables.items():
        if (damage := _damage(place)) is None:
            continue
        moved = _move(place, damage, now) if is_local(place.uri) else None
        if moved is None:
            say(f"{place.uri} is broken, and what is to be written to it may fail: {damage}")
            continue
        aside.add(name)
        say(f"{place.uri} was broken, is kept as {moved} and made anew. It was: {damage}")
    return frozenset(aside)


def _move(place: TablePlace, damage: str, now: datetime) -> Path | None:
    """Where the table lies now; None where it could not be moved.

    One rename: a kill before it leaves the table to the next run, one after it a table that is not
    there, which every run makes. Another run may have been quicker: what it made anew is not
    broken, and stays.
    """
    found = Path(local_path(place.uri))
    found = next((one for one in found.parents if one.is_file()), found)
    aside = found.with_name(f"{found.name}.broken-{now.astimezone(UTC):%Y%m%dT%H%M%S}")
    try:
        if _damage(place) == damage:
            found.rename(aside)
    except OSError:
        return None
    return aside


def is_broken(place: TablePlace) -> bool:
    """Is a table broken? Asks what `set_broken_aside` does."""
    return _damage(place) is not None


def _damage(place: TablePlace) -> str | None:
    try:
        table = place.open()
    except DataDamaged as error:
        return str(error)
    return _broken_file(table, place.uri) if table is not None and is_local(place.uri) else None


def _broken_file(table: DeltaTable, uri: str) -> str | None:
    files = pa.table(table.get_add_actions()).select(["path", "size_bytes"])
    for path, size in zip(*(column.to_pylist() for column in files.columns), strict=True):
        try:
            is_whole = Path(local_path(uri), path).stat().st_size == size
        except OSError:
            return f"{path} is gone"
        if not is_whole:
            return f"{path} is broken: it should have {size:,} bytes"
    return None
