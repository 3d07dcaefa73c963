"""How far a pipeline is behind its source, in a sentence."""

from __future__ import annotations

from tidemark.printed import counted
from tidemark.sources.lag import NotAsked
from tidemark.sources.source import Lag
from tidemark.storage.lease.files import time_text


def lag_text(lag: Lag | NotAsked) -> str:
    """At most: offsets that no message has are counted too, and files that the engine passes
    over."""
    if isinstance(lag, NotAsked):
        return f"The source was not asked: {lag.because}"
    if lag.lost:
        return (
            "Of what was not read of the source some is gone or changed: the next run stops at "
            "that, and `tidemark accept` tells what it is."
        )
    if not lag.messages and not lag.files:
        return "The source has nothing that was not read."
    since = f", the oldest of {time_text(lag.since)}" if lag.since else ""
    if lag.messages is None:
        return f"The source has {counted(lag.files, 'file')}, {lag.bytes:,} bytes, unread{since}."
    return f"The source has at most {counted(lag.messages, 'row')} that were not read{since}."
