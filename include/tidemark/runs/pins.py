"""What publish starts from: versions, watermarks and frontiers of each table after its repair."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.gold.pins import Dependency, Late, TableResult
from tidemark.gold.plan import GoldState
from tidemark.operators.other_inputs import versions_read
from tidemark.operators.repaired import LATE, Repaired
from tidemark.runs.found import found_of
from tidemark.runs.run import Outcome, Run
from tidemark.storage.delta.commits import rows_appended


@dataclass(frozen=True)
class Before:
    """A table before its query ran: what gold holds, the version of `changes`, the watermark."""

    table: str
    gold: GoldState
    changes: int
    watermark_ms: int


def state_before(run: Run, table: str, gold: GoldState) -> Before:
    """The state of one table now."""
    changes = run.warehouse.changes(table, gold.generation).existing().version()
    return Before(table, gold, changes, run.watermark_ms(table, gold.generation))


def pins_of(run: Run, before: Before, repaired: Repaired, outcome: Outcome) -> TableResult:
    """The pins of one table, after its query has ended and its windows are repaired."""
    gold = before.gold
    changes = run.warehouse.changes(before.table, gold.generation).existing()
    watermark = run.watermark_ms(before.table, gold.generation)
    closed = run.closed_ms(before.table, gold.generation)
    return TableResult(
        generation=gold.generation,
        changes=changes.version(),
        inputs=_inputs(run, before, outcome),
        rests_on=_rests_on(run, before, outcome),
        windows_changed=rows_appended(changes, before.changes),
        watermark_before_ms=before.watermark_ms,
        watermark_after_ms=watermark,
        close_before_ms=gold.close_ms,
        close_after_ms=max(gold.close_ms, closed, repaired.sealed_to_ms),
        sealed_to_ms=repaired.sealed_to_ms,
        late=_late(repaired),
    )


def _inputs(run: Run, before: Before, outcome: Outcome) -> dict[str, int]:
    """Bronze as the run has noted it, which its query has read; of other inputs what the query's
    own offsets say."""
    operator = run.operator(before.table)
    checkpoint = run.query_checkpoint(before.table, before.gold.generation)
    others = versions_read(operator, run.warehouse, checkpoint)
    return {
        name: others[name] if name in others else outcome.versions[name]
        for name in before.gold.inputs
    }


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


def _rests_on(run: Run, before: Before, outcome: Outcome) -> dict[str, Dependency]:
    """Of bronze and rejects as far as the run has noted them: what came since is not its own."""
    found = found_of(run.pipeline, run.warehouse, before.table)
    return found.rests_on({**outcome.versions, **_inputs(run, before, outcome)})
