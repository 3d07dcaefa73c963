"""What a source changed of rows that were read, as an act within a run takes it over
(`streaming/recompute/following.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.sources.notes import Followed


@dataclass(frozen=True)
class FollowedChange:
    """Rows that went and rows that came, and what the ingest's next batch reads of it.

    `label` says what changed them, for people, and `way_on` what to do where that cannot be
    followed. `gone`: the keys, as text, of rows that are gone or others now; each of a row that was
    read, where `were_read`. `came`: those of rows that bronze has none of but what goes. `parts`:
    the partitions that rows of keys come from, where the kind has some. `new_rows`: what is to
    stand in the act's folder, for the batch.
    """

    follows: Followed
    label: str
    way_on: str
    gone: tuple[str, ...]
    came: tuple[str, ...] = ()
    were_read: bool = True
    parts: Mapping[str, int] | None = None
    new_rows: bytes | None = None
