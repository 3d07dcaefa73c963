"""Which stores of a query get a new snapshot, and why others do not: pure.

A compaction writes a snapshot of the version that the last committed batch left. Of a batch that is
planned and not committed nothing may be written: it runs again, and its version becomes another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.checkpoint.doctor.findings import CheckpointVerdict, Diagnosis, Severity
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.state_files import DEFAULT_STORE, Provider, StoreId
from tidemark.checkpoint.state.check import StateCheck, StateVerdict
from tidemark.checkpoint.state.stores import StoreInventory

UNLOAD = "spark.sql.streaming.stateStore.unloadOnCommit"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_HELPS = (
    f"What helps is `{UNLOAD}: true` under `advanced.spark`: then the engine writes snapshots in "
    "its own runs."
)
_NOT_HEALTHY = frozenset(StateVerdict) - {StateVerdict.HEALTHY}
# Aggregations, sessions and deduplications, by the engine's names (OperatorStateMetadata): each has
# one store.
_OPERATORS = (
    "stateStoreSave",
    "sessionWindowStateStoreSaveExec",
    "dedupe",
    "dedupeWithinWatermark",
)
_PROVIDERS = (Provider.HDFS_BACKED, Provider.ROCKSDB_CHANGELOG)


@dataclass(frozen=True)
class CompactionPlan:
    """What a compaction of the checkpoint at `uri` would do.

    `batch`: the last committed one, whose state is written. `state`: what the next start replays
    without it. `conf`: what the newest offsets record, by which the engine reads its state. The
    `stores` get a snapshot; none where there is nothing to do, or where it is `refused`.
    """

    uri: str
    batch: int
    state: StateCheck
    conf: Mapping[str, str]
    stores: tuple[StoreId, ...] = ()
    refused: str | None = None

    @property
    def version(self) -> int:
        """The version of the state that is written, and that the next start loads."""
        return self.batch + 1


def plan_compaction(
    facts: CheckpointFacts, diagnosis: Diagnosis, state: StateCheck, every: bool = False
) -> CompactionPlan:
    """What to do where `diagnosis` judges the checkpoint and `state` its state.

    Nothing where no compaction is due; with `every`, wherever there is something to replay.
    """
    stores = _replaying(state)
    asked = state.verdict in _NOT_HEALTHY or (every and stores)
    refused = _refusal(diagnosis, state) if asked else None
    stores = stores if asked and not refused else ()
    return CompactionPlan(facts.uri, state.version - 1, state, facts.conf, stores, refused)


def _replaying(state: StateCheck) -> tuple[StoreId, ...]:
    """The stores of which the next start replays something."""
    partitions = [one.partition for store in state.stores for one in store.partitions]
    return tuple(one.id for one in partitions if one.replayed.files)


def _refusal(diagnosis: Diagnosis, state: StateCheck) -> str | None:
    problems = (_unsupported(store.store) for store in state.stores)
    return refused_by(diagnosis) or next((problem for problem in problems if problem), None)


def refused_by(diagnosis: Diagnosis) -> str | None:
    """Why no state of a checkpoint may be written that was judged so; None where it may."""
    match diagnosis.verdict:
        case CheckpointVerdict.KILLED:
            return (
                f"Batch {diagnosis.batch} is planned and not committed: its state would be stale "
                "once it runs again. Let the next run commit it; the state check then asks again."
            )
        case CheckpointVerdict.DAMAGED:
            known = diagnosis.damage[0].known if diagnosis.damage else diagnosis.sentence
            return f"The checkpoint is damaged: {known} See `tidemark checkpoint doctor`."
        case CheckpointVerdict.UNKNOWN:
            unknown = (f.known for f in diagnosis.findings if f.severity is Severity.UNKNOWN)
            return f"What decides is not known here: {next(unknown, diagnosis.sentence)}"
    return None


def _unsupported(store: StoreInventory) -> str | None:
    """Why a store cannot be compacted; None where it can, or where there is nothing to replay."""
    if not store.replayed.files:
        return None
    if store.operator_name not in _OPERATORS or store.store != DEFAULT_STORE:
        name = store.operator_name or "of an unknown kind (written by Spark before 4.0)"
        return (
            f"Operator {store.operator} is {name}, and on demand only aggregations, "
            f"sessions and deduplications can be compacted. {_HELPS}"
        )
    if store.provider not in _PROVIDERS:
        return f"Operator {store.operator} is kept by {store.provider}. {_HELPS}"
    if any(file.unique_id for p in store.partitions for file in p.built.changes):
        return (
            f"Operator {store.operator} is in checkpoint format 2 (`{_FORMAT}`): which file of a "
            f"version counts stands in its commits. {_HELPS}"
        )
    return None
