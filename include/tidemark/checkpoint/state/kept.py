"""After which batches the state of a query can be read: pure."""

from __future__ import annotations

from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.state.inventory import inventory
from tidemark.errors import StateNotKept


def kept_batches_of_state(facts: CheckpointFacts) -> tuple[int, ...]:
    """The committed batches whose state can be built in every partition, by names and sizes."""
    stores = [p for store in inventory(facts).stores for p in store.partitions]
    if not stores:
        return ()
    versions = [{v for found in one.versions for v in found} for one in stores]
    last = facts.commits.newest
    every = set.intersection(*versions)
    return tuple(v - 1 for v in sorted(every) if last is not None and v - 1 <= last)


def check_kept(facts: CheckpointFacts, batch: int | None) -> int:
    """The batch, or the last committed one; StateNotKept where its state cannot be read."""
    kept = kept_batches_of_state(facts)
    if not kept:
        raise StateNotKept(
            f"{facts.uri} has no state that can be read: the query keeps none, or lost it. See "
            "`tidemark state show`. Nothing was read."
        )
    if batch is None:
        return kept[-1]
    if batch not in kept:
        raise StateNotKept(
            f"{facts.uri} has no state of batch {batch}: it can be read after batches {kept[0]} to "
            f"{kept[-1]}. Nothing was read."
        )
    return batch
