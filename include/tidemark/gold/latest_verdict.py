"""Which of several values that `changes` has of one row is the last, where no commit tells it."""

from __future__ import annotations

from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import BACKFILL, CLOSED, LATE, SEAL


def latest_verdict_key(operator: Operator, relation: str) -> str:
    """What tells the last word on a row, of those that were computed from bronze or failed, as a
    value of DuckDB's to order by: that with more input rows, as a row's only grow. Where one fails
    again over other rows, that after the newest batch, and there by its cause."""
    if not operator.traits.fails_again:
        return f"({listed(operator.traits.grows, relation)},)"
    causes = ", ".join(f"'{cause}'" for cause in (LATE, CLOSED, SEAL, BACKFILL))
    within = f"coalesce(list_position([{causes}], {relation}.cause), 0)"
    return f"(coalesce({relation}.batch, -1), {within})"
