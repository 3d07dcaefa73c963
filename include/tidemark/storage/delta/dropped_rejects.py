"""Up to which batch of the ingest rejects left their table by age (`keep_rejects`).

It stands in the table itself, as an app transaction: the entries of the log, whose notes say the
same, go in time, and a copy of the table has it too.
"""

from __future__ import annotations

from deltalake import DeltaTable

DROPPED = "rejects dropped"


def dropped_to(rejects: DeltaTable) -> int:
    """The last batch whose rejects were dropped, with those of all before it; -1: of none."""
    found = rejects.transaction_version(DROPPED)
    return -1 if found is None else found


def dropped_text(rejects: DeltaTable) -> str | None:
    """That in a sentence, for whoever is told of rejects; None where none were dropped."""
    last = dropped_to(rejects)
    if last < 0:
        return None
    return f"Rejects of the batches up to {last:,} were dropped (`keep_rejects`)."
