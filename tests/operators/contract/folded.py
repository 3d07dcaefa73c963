"""The fold of the suite's kind: its code as a pipeline's file would name it, and the same by hand.

Every third row of an episode puts out a sum that depends on the rows' order; whoever stays away
after two rows or more is put out at the timeout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidemark.pipeline.model import FoldTable

Row = Mapping[str, Any]

FILE = "folds/thirds.py"
SOURCE = """
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from weights import weight


@dataclass
class Seen:
    rows: int = 0
    mixed: int = 0
    first: datetime | None = None


class Thirds:
    def start(self) -> Seen:
        return Seen()

    def step(self, state: Seen, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        state.first = state.first or row["at"]
        state.rows += 1
        state.mixed = (state.mixed * 31 + weight(row)) % 1_000_003
        if state.rows % 3 == 0:
            yield {"what": "third", "mixed": state.mixed, "since": state.first}

    def on_timeout(self, state: Seen) -> list[dict[str, Any]]:
        return [{"what": "left", "mixed": state.mixed}] if state.rows > 1 else []
"""
WEIGHTS = """
def weight(row):
    return row["at"].microsecond % 1000 + row["at"].minute + row["amount"]
"""


def folds(timeout: int = 6, source: str = SOURCE, **changes: Any) -> FoldTable:
    """A table of the fold, its timeout in minutes."""
    return FoldTable.model_validate(
        {
            "fold": {
                "python": f"{FILE}:Thirds",
                "timeout": f"{timeout} minutes",
                "emits": {"what": "string", "mixed": "long", "since": "timestamp"},
                **changes,
            },
            "group_by": ["key"],
            "code": {FILE: source, "folds/weights.py": WEIGHTS},
        }
    )


Known = dict[tuple[Any, ...], tuple[Any, ...]]


def folded(rows: Sequence[Row], gap: timedelta) -> Known:
    """All outputs of these rows, once everything has ended."""
    by_key: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row["key"]].append(row)
    found: Known = {}
    for key, of_key in by_key.items():
        ordered = sorted(of_key, key=lambda row: (row["at"], row["amount"]))
        for held in hanging_together(ordered, gap):
            for number, (end, *values) in enumerate(_outputs(held, gap), start=1):
                count = sum(row["at"] <= end for row in held)
                found[held[0]["at"], key, number] = (end, *values, count)
    return found


def _outputs(held: Sequence[Row], gap: timedelta) -> Iterator[tuple[Any, ...]]:
    mixed = 0
    for count, row in enumerate(held, start=1):
        at: datetime = row["at"]
        mixed = (mixed * 31 + at.microsecond % 1000 + at.minute + row["amount"]) % 1_000_003
        if count % 3 == 0:
            yield at, "third", mixed, held[0]["at"]
    if len(held) > 1:
        yield held[-1]["at"] + gap, "left", mixed, None


def hanging_together(rows: Sequence[Row], gap: timedelta) -> Iterator[list[Row]]:
    """Rows in the order of their times, parted where none comes for longer than the gap."""
    held: list[Row] = []
    for row in rows:
        if held and row["at"] - held[-1]["at"] > gap:
            yield held
            held = []
        held.append(row)
    yield held
