"""What publish starts from: versions, watermarks and frontiers of each table after its repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.gold.pins import Late, TableResult
from tidemark.operators.operator import BRONZE
from tidemark.operators.other_inputs import other_places
from tidemark.operators.repaired import LATE, Repaired
from tidemark.runs.found import found_of
from tidemark.runs.run import Outcome, TableRun
from tidemark.storage.delta.commits import commits_after, rows_appended
from tidemark.storage.delta.notes import ReplayedNote, note_of


@dataclass(frozen=True)
class Before:
    """A table before its query ran: the version of `changes`, and the watermark."""

    table: TableRun
    changes: int
    watermark_ms: int


def state_before(table: TableRun) -> Before:
    """The state of one table now."""
    return Before(table, table.changes.existing().version(), table.watermark_ms())


def pins_of(before: Before, repaired: Repaired, outcome: Outcome) -> TableResult:
    """The pins of one table, after its query has ended and its windows are repaired."""
    table = before.table
    changes, close_ms = table.changes.existing(), table.state.close_ms
    inputs = _inputs(table, outcome)
    # Of bronze and rejects as far as the run has noted them: what came since is not its own.
    found = found_of(table.pipeline, table.warehouse, table.name)
    return TableResult(
        generation=table.generation,
        changes=changes.version(),
        inputs=inputs,
        rests_on=found.rests_on({**outcome.versions, **inputs}),
        windows_changed=rows_appended(changes, before.changes),
        watermark_before_ms=before.watermark_ms,
        watermark_after_ms=table.watermark_ms(),
        close_before_ms=close_ms,
        close_after_ms=max(close_ms, table.closed_ms(), repaired.sealed_to_ms),
        sealed_to_ms=repaired.sealed_to_ms,
        has_replayed=_has_replayed(table, inputs),
        has_recomputed=any(one.windows for one in repaired.recomputed),
        late=_late(repaired),
        corrected_besides=repaired.corrected_besides,
    )


def _inputs(table: TableRun, outcome: Outcome) -> dict[str, int]:
    """Bronze as the run has noted it, which its query has read; of other inputs what the query's
    own offsets say."""
    others = table.versions_read()
    return {
        name: others[name] if name in others else outcome.versions[name]
        for name in table.state.inputs
    }


def _has_replayed(table: TableRun, inputs: Mapping[str, int]) -> bool:
    """Did a replay of rejects append rows to an input since gold was published?"""
    places = {BRONZE: table.bronze, **other_places(table.operator, table.warehouse)}
    return any(
        isinstance(note_of(commit), ReplayedNote)
        for name, place in places.items()
        if inputs[name] > table.state.inputs[name]
        for commit in commits_after(place.existing(), table.state.inputs[name])
    )


def _late(repaired: Repaired) -> Late:
    return Late(
        rows=repaired.late("wholly_late"),
        partly=repaired.late("partly_late"),
        assigned=repaired.late("late_assigned"),
        windows=repaired.late("late_groups"),
        frozen=repaired.late("frozen"),
        recomputed=repaired.of(LATE).windows,
        corrected=repaired.of(LATE).corrected,
        first_seen=repaired.of(LATE).first_seen,
    )
