"""The one tree of errors, told apart by whether a retry can help.

Bad data never raises: it is a recorded reject. An exception here means that a run could not
go on or could not tell. Every message says what is known (file, field, batch, path), in which
state things are now, and what to do next. The job turns `retry_can_help` into its exit code
and into the result file, and the Airflow operator decides from the result file.
"""

from __future__ import annotations

from typing import ClassVar

# Exit codes of jobs and commands: all went well; something must be mended first; starting again
# can help.
SUCCESS, FAILED, RETRY = 0, 1, 75


class TidemarkError(Exception):
    """Base of all errors that Tidemark raises on purpose."""

    retry_can_help: ClassVar[bool] = False


class PipelineInvalid(TidemarkError):
    """A pipeline file cannot be used; the message lists every problem of the file."""


class PipelineNotFound(TidemarkError):
    """No pipeline file has this name or path."""


class PipelineExists(TidemarkError):
    """A pipeline file is there already, and would have been overwritten."""


class SampleUnusable(TidemarkError):
    """The first rows of files cannot be looked at, or are not such as were asked for."""


class SettingsInvalid(TidemarkError):
    """The settings file or a TIDEMARK_* variable cannot be used."""


class SourceNotFound(TidemarkError):
    """What a pipeline reads (a folder, a topic, a table) does not exist.

    A retry can help: it may be made, or a mount come back, between tries.
    """

    retry_can_help: ClassVar[bool] = True


class SourceRefused(TidemarkError):
    """The source does not let us in: a login, a certificate, a permission; the message says which.
    A retry cannot help."""


class InputNeeded(TidemarkError):
    """Lines of a slice need what only the driver can fetch: `needed` says what, in the texts of
    the source's kind. It is fetched, and the slices are read again; no run ends with it."""

    def __init__(self, needed: tuple[str, ...]) -> None:
        super().__init__(needed)
        self.needed = needed


class SourceUnavailable(TidemarkError):
    """The source cannot be reached, or does not answer; the cause may pass."""

    retry_can_help: ClassVar[bool] = True


class InputLost(TidemarkError):
    """Input that was not read is gone, or the source was replaced by another one. The message says
    which and how much; to go on without it, somebody has to accept that."""


class LookupBroken(TidemarkError):
    """A lookup's table holds what cannot be looked up: no value of its type, two rows of one key.
    Nothing was written; somebody has to mend it."""


class ViewBroken(TidemarkError):
    """A view of gold cannot be written: a value of a row is too large for its condition, a column
    has a type that it does not compare, or the view is damaged. Gold is published."""


class SourceChanging(TidemarkError):
    """A source file changed while a batch read it, so that its rows cannot be accounted for.

    A retry can help: the file may be whole by then.
    """

    retry_can_help: ClassVar[bool] = True


class RootMissing(TidemarkError):
    """The root is not there as it should be: a mount is missing. It may come back between tries."""

    retry_can_help: ClassVar[bool] = True


class StorageUnavailable(TidemarkError):
    """A place under the root could not be read or written; the cause may pass."""

    retry_can_help: ClassVar[bool] = True


class LinkLoop(StorageUnavailable):
    """A link leads back to itself, so that what it stands for cannot be read: damage, which no
    retry mends."""

    retry_can_help: ClassVar[bool] = False


class ClockWrong(TidemarkError):
    """This machine's clock is earlier than the last batch was planned, or is not the store's; the
    message says both times. A retry can help, once it is set."""

    retry_can_help: ClassVar[bool] = True


class DataDamaged(TidemarkError):
    """A table's log, or a file that a table or a checkpoint names, is gone or broken; the message
    names it, and says what to do."""


class TableMismatch(TidemarkError):
    """A Delta table does not have the columns that the pipeline file asks for."""


class TableUnsupported(TidemarkError):
    """A Delta table has a feature, or a version of the protocol, that is not known here; the
    message names it."""


class TableLost(TidemarkError):
    """A table or a checkpoint is gone, is older or another than what rests on it knows, or was
    changed by hand: to go on would make gold wrong."""


class AcceptanceRefused(TidemarkError):
    """What was changed by hand cannot be accepted: runs would go on with wrong numbers."""


class NoteUnreadable(TidemarkError):
    """A commit's note is of a known kind, but of a newer version; the message shows it."""


class PipelineChanged(TidemarkError):
    """A pipeline's file changed in a way that its tables and checkpoints cannot follow."""


class GoldNotFound(TidemarkError):
    """A pipeline has no gold table of this name yet; the message says which ones it has."""


class RowUnclear(TidemarkError):
    """It is not clear which row of gold is meant. `choices` are options that name one each."""

    def __init__(self, message: str, choices: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.choices = choices


class CheckpointUnreadable(TidemarkError):
    """A checkpoint file is missing, empty or not of a known format."""


class HousekeepingRefused(TidemarkError):
    """Nothing may be removed from a checkpoint as it is; the message says which one, and why."""


class RewindRefused(TidemarkError):
    """A checkpoint cannot be taken back, repaired or restored as it is; the message says why, and
    what to do."""


class RewindUnproven(TidemarkError):
    """What a rewind, a repair or a restore left is not what was planned. The checkpoint is stopped:
    no query starts on it; the message says which backup brings it back."""


class RemovalRefused(TidemarkError):
    """What a pipeline wrote cannot be removed as it is; the message says why."""


class RenameRefused(TidemarkError):
    """A pipeline cannot get another name as it is; the message says why."""


class RenameUnfinished(TidemarkError):
    """A pipeline was being renamed, and that was not finished. The message says how to finish
    it."""


class ActRefused(TidemarkError):
    """Somebody does what the settings let others do; the message says whom."""


class RetractionRefused(TidemarkError):
    """Rows of a pipeline cannot be retracted, or brought back, as it is; the message says why, and
    what to do."""


class RetractionUnproven(TidemarkError):
    """What a retraction left is not what was planned. The pipeline stays stopped."""


class RetractionUnfinished(TidemarkError):
    """A retraction of the pipeline was begun and not finished: its tables do not fit each other
    until it is. The message says how to finish it."""


class ErasureRefused(TidemarkError):
    """Rows cannot be erased as it is; the message says why, and what to do."""


class ErasureUnproven(TidemarkError):
    """What an erasure left is not what was planned. The pipeline stays stopped."""


class ErasureUnfinished(TidemarkError):
    """An erasure was begun and not finished: the pipeline's tables do not fit each other, or hold
    what is to be erased, until it is. The message says how to finish it."""


class ErasedUntold(TidemarkError):
    """An erasure rejects rows that come again, and nobody can say which they are: the key is not
    there, or another, or a column is not, or its record cannot be read. Nothing is read until it
    is."""


class ReplayRefused(TidemarkError):
    """Rejects of a pipeline cannot be replayed as it is; the message says why, and what to do."""


class ReplayUnproven(TidemarkError):
    """What a replay of rejects left is not what was planned. The pipeline stays stopped."""


class ReplayUnfinished(TidemarkError):
    """A replay of rejects was begun and not finished: its tables do not fit each other until it
    is. The message says how to finish it."""


class RewindUnfinished(TidemarkError):
    """A rewind of the pipeline was begun and not finished: its tables do not fit each other until
    it is. The message says how to finish it, and how to take it back."""


class MaintenanceRefused(TidemarkError):
    """A table could not be maintained, because a reader is too far behind; the message says
    which one, and what to do."""


class StateLost(TidemarkError):
    """State that the next start loads cannot be built from the files that are there."""


class StateNotKept(TidemarkError):
    """The state after a batch cannot be read; the message says after which batches it can."""


class TableExists(TidemarkError):
    """There is a table where one was to be made; it is as it was."""


class ConditionInvalid(TidemarkError):
    """A condition on the keys of state cannot be used; the message says which columns there are."""


class NoSuchSide(TidemarkError):
    """A side of a join was asked for in the state of a table that joins nothing."""


class CompactionRefused(TidemarkError):
    """Due state may not be compacted as it is; the message says why, and what helps."""


class SnapshotFailed(TidemarkError):
    """The engine did not write a snapshot of state that it was asked for; its cause may pass."""

    retry_can_help: ClassVar[bool] = True


class StateDiffers(TidemarkError):
    """State read through new snapshots, or in other partitions, was not what it was before; what
    was written is removed."""


class RepartitionRefused(TidemarkError):
    """State may not be brought to other partitions as it is; the message says why, and what to
    do."""


class RepartitionFailed(TidemarkError):
    """The engine did not bring state to other partitions, which is in the former ones again; its
    cause may pass."""

    retry_can_help: ClassVar[bool] = True


class RepartitionUnfinished(TidemarkError):
    """The state of a pipeline was being brought to other partitions, and that was not finished. The
    message says how to finish it."""


class NotACheckpoint(TidemarkError):
    """A place holds no checkpoint; the message says what it holds, and what to give instead."""


class ResultUnreadable(TidemarkError):
    """A result file is missing or is not one that a run wrote."""


class NotPublishable(TidemarkError):
    """A result is of another pipeline, or its run did not come far enough to be published."""


class SourcePassedOver(TidemarkError):
    """The engine has not read what the store lists; the message says which, and why that can be."""


class LedgerUnbalanced(TidemarkError):
    """A run's rows do not add up; the message names the batch and the difference."""


class ChecksFailed(TidemarkError):
    """What a run would publish breaks checks of its pipeline's file; the message says which."""


class BackfillRefused(TidemarkError):
    """A backfill's range holds windows that it may not change; the message says which it may."""


class MigrationRefused(TidemarkError):
    """A table cannot be migrated as it is; the message says why, and what to do."""


class UnpublishedChanges(TidemarkError):
    """Changes of another run wait for their publish, and would be published along."""

    retry_can_help: ClassVar[bool] = True


class EngineMissing(TidemarkError):
    """Spark was started without what a job needs (the Delta jars, for instance)."""


class ClusterBusy(TidemarkError):
    """No executor had a core free in time; a retry can help."""

    retry_can_help: ClassVar[bool] = True


class EngineChanged(TidemarkError):
    """This version of Spark lacks a private class or method that is called; the message says
    which, and what to do without it."""


class RunFailed(TidemarkError):
    """A streaming query failed in the engine; the message names query, batch and cause."""

    retry_can_help: ClassVar[bool] = True


class ExpressionFailed(TidemarkError):
    """An expression of the pipeline's file failed in the engine; its own words come first, whole.

    A retry cannot help: the same rows fail again.
    """


class StackExhausted(TidemarkError):
    """An expression of the pipeline's file took more of Java's stack than there is.

    A retry cannot help. It is no verdict on a row or a window either: how much stack there is
    depends on the machine.
    """


class MemoryExhausted(TidemarkError):
    """DuckDB may take no more memory, and no more room on disk; a retry cannot help."""


class LeaseHeld(TidemarkError):
    """Another run works on the pipeline; the message says who, where and until when."""

    retry_can_help: ClassVar[bool] = True


class LeaseLeft(LeaseHeld):
    """Whoever held the lease has not given it back. A run takes it over; who asked may not."""


class LeaseLost(TidemarkError):
    """This run's lease lapsed, or another run took it over: this one may write nothing more."""

    retry_can_help: ClassVar[bool] = True


class LeaseUnreadable(TidemarkError):
    """A lease file is not one that a run wrote, so nobody can tell who holds the lease."""
