"""Which state can be brought to another number of partitions, and why other state can not: pure.

The engine does it (class OfflineStateRepartitionRunner, since Spark 4.2): it adds a batch to the
logs that reads nothing, and writes all of the state anew as what that batch left. It looks at the
kind of store only when that batch is planned, and no query starts then: so all is asked before.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.checkpoint.doctor.findings import Diagnosis
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.log_formats import repartitions
from tidemark.checkpoint.reading.state_files import Provider
from tidemark.checkpoint.state.check import StateCheck
from tidemark.checkpoint.state.plan_compaction import refused_by

# Windows, sessions, joins and folds, by the engine's names: what was tried (OperatorStateMetadata).
FOLD = "transformWithStateInPySparkExec"
_OPERATORS = ("stateStoreSave", "sessionWindowStateStoreSaveExec", "symmetricHashJoin", FOLD)
_ROCKSDB = (Provider.ROCKSDB, Provider.ROCKSDB_CHANGELOG)


@dataclass(frozen=True)
class RepartitionPlan:
    """What a repartition of one query's state would do: from how many partitions it comes, None
    where it keeps no state, and why it is `refused`."""

    partitions: int | None
    refused: str | None = None


def plan_repartition(
    facts: CheckpointFacts, diagnosis: Diagnosis, state: StateCheck
) -> RepartitionPlan:
    """What to do where `diagnosis` judges the checkpoint and `state` its state."""
    if facts.partitions is None or not state.stores:
        return RepartitionPlan(None)
    return RepartitionPlan(facts.partitions, refused_by(diagnosis) or _unsupported(state))


def _unsupported(state: StateCheck) -> str | None:
    for one in state.stores:
        store = one.store
        if store.provider not in _ROCKSDB:
            return (
                f"Operator {store.operator} is kept by {store.provider}, and the engine brings "
                "only RocksDB's state to other partitions. A new generation begins with the store "
                "and the partitions of the file: `tidemark migrate --rebuild`."
            )
        if store.operator_name not in _OPERATORS:
            name = store.operator_name or "of an unknown kind (written by Spark before 4.0)"
            return (
                f"Operator {store.operator} is {name}: only windows, sessions, joins and folds "
                "were tried."
            )
        built = [one.built for one in store.partitions]
        files = [file for one in built for file in (one.snapshot, *one.changes) if file]
        if any(file.unique_id for file in files):
            return f"Operator {store.operator} is in checkpoint format 2, which was not tried."
    return None


def batch_before(facts: CheckpointFacts, partitions: int) -> int:
    """The batch whose state is brought to so many partitions: the newest, or the one before it
    where that is a repartition to as many, done or begun."""
    newest = facts.offsets.newest or 0
    planned, before = facts.offsets.entry(newest), facts.offsets.entry(newest - 1)
    if planned is None or before is None or planned.partitions != partitions:
        return newest
    return newest - 1 if repartitions(before, planned) else newest
