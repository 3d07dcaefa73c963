"""What a repair found and did: the facts that the result file and the ledger tell."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.operators.touched import BatchCounts

LATE, SEAL, BACKFILL = "late", "seal", "backfill"
# The cause of rows that closed in a table whose stream emits none (`Table.recomputes`).
CLOSED = "closed"
# The cause of open rows there that new input rows touched (`Table.recomputes_open`).
OPEN = "open"
# The cause of rows that a lookup touches which says something else now.
LOOKUP = "lookup"
# The cause of a generation's first rows: all windows as bronze gives them.
MIGRATION = "migration"
# The cause of a row of `changes` by which the stream leaves a window out (`gold/failing.py`).
FAILED = "failed"
# The cause of one by which a row is detached from the stream (`gold/to_compute.py`).
APART = "apart"
# The causes of rows that say nothing of gold.
NOT_OF_GOLD = (FAILED, APART)


@dataclass(frozen=True)
class Recomputed:
    """Windows of one cause: how many were computed, their `rows` in sum, the assignments that
    bronze holds of them (None: their sum says nothing), and how many differed and were appended. Of
    those, gold held `corrected` as closed ones, and did not hold `first_seen`."""

    cause: str
    windows: int
    rows: int
    rows_in_bronze: int | None
    appended: int
    corrected: int = 0
    first_seen: int = 0


@dataclass(frozen=True)
class Repaired:
    """What a repair found, batch by batch, and what it computed again.

    `sealed_to_ms` is the seal frontier in milliseconds, 0 where nothing was to be sealed;
    `closed_to_ms` that up to which what closed was computed, where the stream emits none of it;
    `computed_at` is the position of the inputs that what ends was computed from (`other_inputs`);
    `checked_to` tells the versions of the inputs that what the stream emitted was held against, 0
    where the kind of operator asks for none.
    """

    batches: tuple[BatchCounts, ...]
    recomputed: tuple[Recomputed, ...]
    sealed_to_ms: int = 0
    checked_to: int = 0
    closed_to_ms: int = 0
    computed_at: int = 0

    @property
    def positions(self) -> dict[str, int]:
        """What each cause's computation rests on, for the ledger: of what ends, the frontier and
        the inputs, as a run that was not published may have computed it over fewer rows; of what
        lookups touch, the inputs.

        Of the batches only those that windows are repaired for, or of what is open, that have rows:
        after a kill the next run's fence of bronze is read as a batch of no rows, and the repair
        repeats.
        """
        late = (
            counts.batch.last for counts in self.batches if counts.closed_groups or counts.excluded
        )
        last = max(*late, self.checked_to, 0)
        opened = max((counts.batch.last for counts in self.batches if counts.rows), default=0)
        closed, sealed = (to + self.computed_at for to in (self.closed_to_ms, self.sealed_to_ms))
        of_lookups = {LOOKUP: self.computed_at}
        return {LATE: last, OPEN: opened, CLOSED: closed, SEAL: sealed, **of_lookups}

    def late(self, name: str) -> int:
        """The sum of one of the batches' counts."""
        return sum(getattr(counts, name) for counts in self.batches)

    @property
    def corrected_besides(self) -> int:
        """The closed windows of gold that were corrected for anything but late rows."""
        return sum(one.corrected for one in self.recomputed if one.cause != LATE)

    def of(self, cause: str) -> Recomputed:
        """What was computed for one cause; zeros where nothing was."""
        found = [one for one in self.recomputed if one.cause == cause]
        return found[0] if found else Recomputed(cause, 0, 0, 0, 0)
