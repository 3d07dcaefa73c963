"""What gold says of itself: the transactions of its commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable

from tidemark.gold.pins import Dependency
from tidemark.gold.plan import CHANGES, CLOSE, IDENTITIES, GoldState, noted_name
from tidemark.operators.operator import BRONZE
from tidemark.storage.generation import generation_of

# The status of a window that is still open.
PROVISIONAL = "provisional"


def gold_state(
    gold: DeltaTable,
    inputs: Sequence[str] = (BRONZE,),
    rests_on: Mapping[str, Dependency] | None = None,
) -> GoldState:
    """What gold's transactions say; the state before the first publish where there are none.

    `inputs` are those of its operator, `rests_on` what is there now: who plans a publish asks for
    all of them.
    """
    asked = [noted_name(name, one.id) for name, one in (rests_on or {}).items()]
    found = {name: gold.transaction_version(name) for name in asked}
    return GoldState(
        version=gold.version(),
        changes=_transaction(gold, CHANGES),
        inputs={name: _transaction(gold, name) for name in inputs},
        close_ms=gold.transaction_version(CLOSE) or 0,
        generation=generation_of(gold),
        identified=gold.transaction_version(IDENTITIES) is not None,
        noted={name: at for name, at in found.items() if at is not None},
    )


def is_published(gold: DeltaTable) -> bool:
    """Was anything published into it? Not where it is made anew, and still empty."""
    return gold.transaction_version(CHANGES) is not None


def _transaction(gold: DeltaTable, app: str) -> int:
    version = gold.transaction_version(app)
    return -1 if version is None else version
