"""The commit points of a run: each call that changes something which outlives the process.

A backfill reaches points of a run, an audit none. What only a command does, or upkeep, comes
last.

Killed before or after any of them and started again, a pipeline comes to what an undisturbed run
gives. A function that writes and is not listed fails a test, and so does a point here without a
test that kills a run before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommitPoint:
    """A write of a run. `at` is `module:function`, or `module:Class.method`; `after_a_kill` says
    what a kill before it leaves, and one after it."""

    name: str
    at: str
    after_a_kill: str


# In the order in which a run reaches them.
COMMIT_POINTS = (
    CommitPoint(
        "lease taken",
        "tidemark.storage.lease.files:LeaseFolder.create",
        "before: nothing; after: a lease whose processes are gone, which the next run takes over",
    ),
    CommitPoint(
        "older leases removed",
        "tidemark.storage.lease.files:LeaseFolder.remove_below",
        "before and after: a lease as above; files of lower numbers count for nothing",
    ),
    CommitPoint(
        "table fenced",
        "tidemark.storage.delta.fence:_fence",
        "before and after: the lease says that a fence is due, and the next run fences all tables",
    ),
    CommitPoint(
        "fence noted",
        "tidemark.storage.lease.held:Lease.tables_are_fenced",
        "before: the next run fences once more; after: as any lease that was left",
    ),
    CommitPoint(
        "lease renewed",
        "tidemark.storage.lease.held:Lease._renew",
        "before and after: a lease whose processes are gone; until when it ran does not matter",
    ),
    CommitPoint(
        "columns planned",
        "tidemark.streaming.planned_columns:_keep",
        "before: the next run plans them again; after: it finds them",
    ),
    CommitPoint(
        "table made",
        "tidemark.storage.delta.create:_create",
        "before and after: the next run makes the tables that are missing",
    ),
    CommitPoint(
        "columns added",
        "tidemark.storage.delta.create:_check",
        "before and after: the next run adds the columns that are missing",
    ),
    CommitPoint(
        "contract recorded",
        "tidemark.runs.contract.contract:write_contract",
        "before and after: no batch was planned since; the next run compares with what is there, "
        "and records what is missing",
    ),
    CommitPoint(
        "interrupted run recorded",
        "tidemark.runs.recorded_runs:record_interrupted_run",
        "before: the next run records it; after: the next run finds it recorded",
    ),
    CommitPoint(
        "query started",
        "tidemark.streaming.run.queries:start_query",
        "before: nothing; after: the engine writes its checkpoint (files listed, offsets, state, "
        "commits) while the query runs, and repeats a batch that has offsets and no commit",
    ),
    CommitPoint(
        "accepted rows",
        "tidemark.streaming.ingest.ingest:_append_bronze",
        "before: the batch is judged anew, from the files as they are; after: its rejects are "
        "judged again from the files that have not changed",
    ),
    CommitPoint(
        "rejected rows",
        "tidemark.streaming.ingest.ingest:_append_rejects",
        "before: as after the accepted rows; after: the batch is known as committed",
    ),
    CommitPoint(
        "windows of the stream",
        "tidemark.streaming.run.aggregate:_append",
        "before: the batch runs again; after: it runs again for its state, and appends nothing",
    ),
    CommitPoint(
        "recomputed windows",
        "tidemark.gold.recomputed:append_recomputed",
        "before: the next run finds the same windows; after: they do not differ any more",
    ),
    CommitPoint(
        "ledger",
        "tidemark.ledger.ledger:write_ledger",
        "before: the next run writes the lines; after: the lines are known by their batches",
    ),
    CommitPoint(
        "data docs",
        "tidemark.quality.data_docs:write_docs",
        "before, after and in between: pages that the next validation writes anew",
    ),
    CommitPoint(
        "verdicts recorded",
        "tidemark.quality.record:record_verdicts",
        "before: the next validation records them; after: what says the same is not added again",
    ),
    CommitPoint(
        "gold",
        "tidemark.gold.publish:_commit",
        "before: the next run publishes; after: gold's transactions say what was published",
    ),
    CommitPoint(
        "expired dates dropped",
        "tidemark.gold.retention:_drop_before",
        "before: the next run drops them; after: there is nothing left to drop",
    ),
    CommitPoint(
        "lease released",
        "tidemark.storage.lease.held:Lease.give_back",
        "before: a lease whose processes are gone; after: a free lease",
    ),
    CommitPoint(
        "run recorded",
        "tidemark.runs.recorded_runs:record_run",
        "before: the next run records what was published as interrupted; after: nothing is due",
    ),
    CommitPoint(
        "result",
        "tidemark.storage.result_file:write_result",
        "before: whoever started the run finds no result, and starts it again; after: nothing is "
        "due, and a run that is started again finds nothing to do",
    ),
    CommitPoint(
        "ledger rebuilt",
        "tidemark.ledger.ledger:replace_ledger",
        "before: the ledger is as it was; after: it is the new one, and a repeat writes it again",
    ),
    CommitPoint(
        "batches copied",
        "tidemark.ledger.copied_batches:copy_batches",
        "before: housekeeping has removed nothing; after: a repeat finds the batches copied",
    ),
    CommitPoint(
        "checkpoint files removed",
        "tidemark.upkeep.housekeep:carry_out",
        "before, after and in between: no start needs what is gone; a repeat removes what is left",
    ),
    CommitPoint(
        "small files packed",
        "tidemark.upkeep.maintenance.carry_out:compact",
        "before: files that no commit names; after: the same rows in fewer files",
    ),
    CommitPoint(
        "old rows dropped",
        "tidemark.upkeep.maintenance.carry_out:keep_rows",
        "before: all rows are there; after: a repeat finds none to drop",
    ),
    CommitPoint(
        "log checkpoint written",
        "tidemark.upkeep.maintenance.carry_out:write_checkpoint",
        "before: the log is read entry by entry; after: a repeat finds none due",
    ),
    CommitPoint(
        "unneeded files removed",
        "tidemark.upkeep.maintenance.carry_out:remove",
        "before, after and in between: no reader needs what is gone; a repeat removes the rest",
    ),
    CommitPoint(
        "snapshot of state",
        "tidemark.streaming.engine.snapshots:_write_snapshot",
        "before and after: each store has its changes, and may have its snapshot: a start loads "
        "the same version by either; a repeat writes the snapshots that are missing",
    ),
    CommitPoint(
        "upkeep recorded",
        "tidemark.upkeep.record:append_rows",
        "before: what was removed is told nowhere; after: a repeat finds nothing to remove",
    ),
)
