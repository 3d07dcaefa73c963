"""What a run published, kept in the metadata of gold's commit.

A publish that is killed behind its commit is tried again, and finds nothing to do: whoever waits
for the range of windows gets it from there.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable

from tidemark.tables.results.result import Published

_WINDOWS, _START, _END = "windows", "windows_start_ms", "windows_end_ms"
# Fences and what maintenance commits may come behind a publish.
_RECENT = 20


def published_note(changed: Published | None) -> dict[str, str]:
    """What gold's commit says of the windows that it changed; nothing where it changed none."""
    if changed is None:
        return {}
    return {
        _WINDOWS: str(changed.windows),
        _START: str(changed.start_ms),
        _END: str(changed.end_ms),
    }


def published_before(gold: DeltaTable, note: Mapping[str, str]) -> Published | None:
    """What the run of this note (`publish_note`) published, where that is gold's last publish.

    Costs the reading of one commit, where gold's newest is a publish.
    """
    for limit in (1, _RECENT):
        for commit in gold.history(limit):
            if "run" in commit:
                same = all(commit.get(key) == value for key, value in note.items())
                return _published(commit) if same else None
    return None


def _published(commit: Mapping[str, str]) -> Published | None:
    if _WINDOWS not in commit:
        return None
    return Published(
        windows=int(commit[_WINDOWS]),
        start_ms=int(commit[_START]),
        end_ms=int(commit[_END]),
    )
