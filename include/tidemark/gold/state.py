"""What gold says of itself: the transactions of its commits."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable

from tidemark.gold.plan import CHANGES, CLOSE, GENERATION, GoldState
from tidemark.operators.operator import BRONZE

# The status of a window that is still open.
PROVISIONAL = "provisional"


def gold_state(gold: DeltaTable, inputs: Sequence[str] = (BRONZE,)) -> GoldState:
    """What gold's transactions say; the state before the first publish where there are none.

    `inputs` are those of its operator: who plans a publish asks for all of them.
    """
    return GoldState(
        version=gold.version(),
        changes=_transaction(gold, CHANGES),
        inputs={name: _transaction(gold, name) for name in inputs},
        close_ms=gold.transaction_version(CLOSE) or 0,
        generation=gold.transaction_version(GENERATION) or 1,
    )


def _transaction(gold: DeltaTable, app: str) -> int:
    version = gold.transaction_version(app)
    return -1 if version is None else version
