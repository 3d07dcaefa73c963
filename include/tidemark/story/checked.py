"""Does gold equal bronze for one row? By an audit of all rows that start when it does."""

from __future__ import annotations

from tidemark.recompute.audit_result import AuditResult
from tidemark.recompute.differences import DIFFERING, EXAMPLES, Example, plain
from tidemark.story.story import CheckedRow, Story


def checked_by(audit: AuditResult, story: Story) -> CheckedRow:
    """What an audit says of a row; it tells a few of the windows that differ."""
    if audit.error is not None:
        return CheckedRow(None, f"The audit failed: {audit.error.message}")
    found = audit.tables[story.table].found
    if not found.gold_windows and not found.bronze_windows:
        why = "it is open, or older than `keep`, or neither gold nor bronze has it"
        return CheckedRow(None, f"The row was not compared: {why}.")
    if not found.windows:
        rows = found.gold_windows
        return CheckedRow(True, f"Gold equals bronze in all {rows:,} rows that start when it does.")
    key = {name: plain(value) for name, value in story.key.items()}
    for kind in DIFFERING:
        for example in found.examples.get(kind, ()):
            if {name: plain(value) for name, value in example.keys.items()} == key:
                return CheckedRow(False, _told(example))
    if all(getattr(found, kind) <= EXAMPLES for kind in DIFFERING):
        return CheckedRow(True, f"Gold equals bronze here; {found.windows:,} others differ.")
    return CheckedRow(
        None,
        f"{found.windows:,} rows that start when it does differ, more than an audit tells one by "
        "one: whether this is among them is not known.",
    )


def _told(example: Example) -> str:
    gold, bronze = (
        "nothing" if side is None else ", ".join(f"{name}={plain(of)}" for name, of in side.items())
        for side in (example.gold, example.bronze)
    )
    return f"Gold has {gold}; bronze gives {bronze}. `tidemark backfill` brings what bronze gives."
