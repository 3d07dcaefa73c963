"""A time zone with rules of one's own, as another release of the time zones would bring them."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

_HOUR = 3600


@contextmanager
def clocks(folder: Path, zone: str, hours: int, moves: Mapping[datetime, int]) -> Iterator[None]:
    """Within it Python finds these rules: so many hours ahead of UTC, and from some instants on so
    many. They are read from a file, as those of the system are."""
    file = folder / zone
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_compiled([hours, *moves.values()], list(moves)))
    of_the_system = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(folder), *of_the_system])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        yield
    finally:
        zoneinfo.reset_tzpath(of_the_system)
        zoneinfo.ZoneInfo.clear_cache()


def _compiled(hours: list[int], instants: list[datetime]) -> bytes:
    """The form of RFC 8536, its first version: a local time type for each number of hours."""
    name = b"-00\0"
    counts = (0, 0, 0, len(instants), len(hours), len(name))
    seconds = (int(instant.timestamp()) for instant in instants)
    return b"".join(
        (
            struct.pack(">4s16x6l", b"TZif", *counts),
            struct.pack(f">{len(instants)}l", *seconds),
            bytes(range(1, len(hours))),
            *(struct.pack(">lbB", hour * _HOUR, 0, 0) for hour in hours),
            name,
        )
    )
