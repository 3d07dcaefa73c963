"""What gold says of itself: the transactions of its commits."""

from __future__ import annotations

from deltalake import DeltaTable

from tidemark.gold.plan import BRONZE, CHANGES, CLOSE, GENERATION, GoldState

# The status of a window that is still open.
PROVISIONAL = "provisional"


def gold_state(gold: DeltaTable) -> GoldState:
    """What gold's transactions say; the state before the first publish where there are none."""
    return GoldState(
        version=gold.version(),
        changes=_transaction(gold, CHANGES),
        bronze=_transaction(gold, BRONZE),
        close_ms=gold.transaction_version(CLOSE) or 0,
        generation=gold.transaction_version(GENERATION) or 1,
    )


def _transaction(gold: DeltaTable, app: str) -> int:
    version = gold.transaction_version(app)
    return -1 if version is None else version
