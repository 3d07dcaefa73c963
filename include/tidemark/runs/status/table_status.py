"""How a table stands, by gold's log, the log of `changes`, and gold's newest dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.gold.failing import NONE_FAILING, Failing, failing_now
from tidemark.gold.plan import GoldState
from tidemark.gold.row_values import open_windows
from tidemark.gold.state import gold_state
from tidemark.operators.operator import BRONZE, Operator
from tidemark.pipeline.instants import instant_of
from tidemark.runs.status.recent_runs import RecentRun, counted_once
from tidemark.storage.delta.commits import commits_after, rows_appended
from tidemark.storage.delta.notes import ReplayedNote, note_of
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class TableStatus:
    """A table of a pipeline. Times are in UTC; None: none yet.

    `closed_to` is gold's close frontier. `open_windows` are gold's provisional ones: windows in
    append mode have none, for gold gets them when they close. `unpublished` counts changed windows
    that gold does not stand for yet, `failing` those that it lacks as a measure of them fails.
    `late_rows`, each counted once, and `corrected_windows` are those of the recent runs; None
    where no run is known that counted them. `replayed`: rejects came to bronze that gold does not
    stand for yet.
    """

    name: str
    watermark: datetime | None = None
    closed_to: datetime | None = None
    open_windows: int = 0
    unpublished: int = 0
    late_rows: int | None = None
    corrected_windows: int | None = None
    failing: Failing = NONE_FAILING
    replayed: bool = False


def table_status(
    name: str,
    operator: Operator,
    warehouse: Warehouse,
    runs: Sequence[RecentRun],
    frozen_before_ms: int | None = None,
) -> TableStatus:
    """The status of one table. No row of bronze is read, and of gold only the dates that can hold
    an open window."""
    gold = warehouse.gold(name).open()
    changes = warehouse.changes(name, generation_of(gold)).open()
    if changes is None:
        return TableStatus(name)
    if gold is None:
        # Removed: the next publish makes it anew from all of them.
        return TableStatus(name, unpublished=rows_appended(changes, -1))
    state = gold_state(gold)
    results = [run.tables[name] for run in runs if name in run.tables]
    counted = [run.tables[name] for run in counted_once(runs) if name in run.tables and run.counted]
    return TableStatus(
        name,
        watermark=next((one.watermark for one in results if one.watermark), None),
        closed_to=instant_of(state.close_ms) if state.close_ms else None,
        open_windows=open_windows(gold, state.close_ms),
        unpublished=rows_appended(changes, state.changes),
        late_rows=sum(one.late_rows for one in counted) if counted else None,
        corrected_windows=sum(one.corrected_windows for one in counted) if counted else None,
        failing=failing_now(gold, changes, operator, state, frozen_before_ms),
        replayed=_has_replayed(warehouse, state),
    )


def _has_replayed(warehouse: Warehouse, state: GoldState) -> bool:
    bronze = warehouse.bronze.open()
    newer = commits_after(bronze, state.inputs[BRONZE]) if bronze is not None else ()
    return any(isinstance(note_of(commit), ReplayedNote) for commit in newer)
