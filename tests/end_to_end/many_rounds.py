"""Six pipelines of different kinds, below one root, and what comes in three rounds.

In the second round the check of one fails; the third has late rows, one of which mends that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.kit.running import Place, clicks
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.state import STORE_CLASSES
from tidemark.runs.requests import StreamRequest

ROUNDS = (1, 2, 3)
SUMS = {"events": "count(*)", "amount": "sum(amount)"}
FOLD = """
from dataclasses import dataclass

STEP = {step}

@dataclass
class Seen:
    rows: int = 0

class Counted:
    def start(self) -> Seen:
        return Seen()

    def step(self, state, row):
        state.rows += STEP
        yield {{"so_far": state.rows}}

    def on_timeout(self, state):
        return [{{"so_far": -state.rows}}]
"""


def _fold(folder: str) -> dict[str, Any]:
    fold = {
        "python": f"{folder}/counted.py:Counted",
        "timeout": "5 minutes",
        "emits": {"so_far": "long"},
    }
    return {"t": {"group_by": ["key"], "fold": fold}}


def _windows(**changes: Any) -> dict[str, Any]:
    table = {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": SUMS}
    return {"t": table | changes}


CONTENTS: dict[str, dict[str, Any]] = {
    "checked": {"tables": _windows(checks=[{"fail": "amount > 0"}])},
    # Two modules of one name, whose code differs.
    "fold_by_one": {"tables": _fold("one")},
    "fold_by_ten": {"tables": _fold("ten")},
    "named": {
        "tables": _windows(group_by=["names.name"]),
        "lookup": {
            "names": {
                "file": "dims/names.csv",
                "on": {"key": "id"},
                "columns": {"name": "string"},
            }
        },
    },
    "sessions": {
        "tables": _windows(window={"session": "5 minutes"}),
        "advanced": {
            "shuffle_partitions": 3,
            "state": {"store": "rocksdb"},
            "spark": {"spark.sql.adaptive.enabled": "true"},
        },
    },
    "windows": {"tables": _windows()},
}
# By the pipeline's name: what its session has that is not as in the others.
SET = {"sessions": ("3", STORE_CLASSES[1], "true")}


def place_of(root: Path, name: str) -> Place:
    source = clicks()["source"] | {"files": f"landing/{name}/*.json"}
    return Place(root, clicks(source=source, **CONTENTS[name]), name)


def write_files(root: Path) -> None:
    """All that the runs read, but for their input."""
    for folder, step in (("one", 1), ("ten", 10)):
        file = root / "pipelines" / folder / "counted.py"
        file.parent.mkdir(parents=True)
        file.write_text(FOLD.format(step=step))
    (root / "dims").mkdir()
    (root / "dims" / "names.csv").write_text("id,name\na,Ada\nb,Bea\n")
    for name in CONTENTS:
        place_of(root, name).write_file()


def land(root: Path, name: str, number: int) -> None:
    """What comes to a pipeline before a round; no two of them get the same rows."""
    place_of(root, name).land(f"{number}.json", _rows(name, number), f"landing/{name}")


def asked(root: Path, name: str, number: int) -> StreamRequest:
    run_id = f"run-{number}"
    return StreamRequest(
        pipeline=str(root / "pipelines" / f"{name}.yaml"),
        run_id=run_id,
        scheduled_time=datetime(2026, 7, 1, number, tzinfo=UTC),
        result=Places(str(root), name).result(run_id),
        by="test",
    )


def _rows(name: str, number: int) -> Sequence[dict[str, Any] | str]:
    more = 1 + list(CONTENTS).index(name)
    begin = (number - 1) * 40
    rows: list[dict[str, Any] | str] = [
        _row(minute, "ab"[minute % 2], minute * more) for minute in range(begin + 1, begin + 40, 3)
    ]
    if number == 2:
        # The sum of its window is below 0.
        rows += ["no JSON", _row(77, "b", -10_000)]
    if number == 3:
        rows += [_row(5, "a", 7), _row(5, "c", 8), _row(78, "b", 20_000)]
    return rows


def _row(minute: int, key: str, amount: int) -> dict[str, Any]:
    return {"at": f"2026-01-01T{10 + minute // 60}:{minute % 60:02}:00Z", "key": key,
            "amount": amount}  # fmt: skip
