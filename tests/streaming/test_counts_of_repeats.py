"""What the ledger is told of a batch whose accepted rows an earlier try committed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemark.sources.committed import Committed
from tidemark.sources.source import PartVerdict, Reading
from tidemark.storage.delta.rows import Rows
from tidemark.streaming.ingest.ingest import _counts_of_repeat
from tidemark.streaming.ingest.judged_batch import JudgedBatch

COMMITTED = Rows(read=10, accepted=8, rejected={"no value": 2}, counted={"no key": 3})
GONE = PartVerdict("t/0/0-9", "expired", "gone")


@pytest.mark.parametrize(
    ("now", "verdicts", "read"),
    [
        (COMMITTED, (), 10),
        # Compaction took a rejected message, an accepted one, one of each.
        (Rows(read=9, accepted=8, rejected={"no value": 1}), (), 9),
        (Rows(read=9, accepted=7, rejected={"no value": 2}), (), 10),
        (Rows(read=8, accepted=7, rejected={"no value": 1}), (), 9),
        (Rows(read=1, accepted=0, rejected={"expired": 1}), (GONE,), 9),
    ],
)
def test_what_is_read_is_what_is_accepted_and_rejected(
    now: Rows, verdicts: tuple[PartVerdict, ...], read: int
) -> None:
    committed = Committed(COMMITTED, Reading((), (), {}), None, None, 1, is_complete=False)
    judged = JudgedBatch(None, pa.table({}), Reading((), verdicts, {}), now)
    counts = _counts_of_repeat(committed, judged)
    assert (counts.read, counts.accepted) == (read, 8)
    assert counts.counted == {"no key": 3}
    assert counts.read == counts.accepted + sum(counts.rejected.values())
