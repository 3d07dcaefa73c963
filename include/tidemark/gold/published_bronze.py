"""Which rows of bronze gold stands for: what audits and backfills compute from.

Gold's transaction `bronze` names the version B that its last publish had read to. The rows that
gold has to show are those of bronze as it is *now*, without the batches of ingest that were
committed after B:
- a later batch is one that gold cannot have yet: a run works at the moment, is held, or was
  killed. Its rows are left out;
- B itself would not do: rows that were deleted from bronze since, or written anew in place,
  would still be seen there, and files that were cleaned up could not be read at all;
- a publish that finds nothing to do leaves B where it is, though its run may have ingested rows.
  They are left out too, rightly. Every row for an open window is emitted at once in update and
  complete mode, which publishes. A row for a closed one has it repaired, and that is noted even
  where it changes nothing (`plan.py`): rows that were deleted by hand and landed again make the
  window that gold has. What remains is append mode's rows of open windows, which gold shows only
  once they close, and late rows of frozen windows, which it never shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalake import DeltaTable

from tidemark.errors import StorageUnavailable, UnpublishedChanges
from tidemark.storage.delta.notes import IngestNote, ReplayedNote, note_of


@dataclass(frozen=True)
class PublishedBronze:
    """Bronze at `version`, without the ingest batches from `before_batch` on (None: with all)."""

    version: int
    before_batch: int | None

    @property
    def condition(self) -> str:
        """The condition on bronze's rows, in the SQL of Spark and of DuckDB."""
        if self.before_batch is None:
            return "true"
        return f"(_batch IS NULL OR _batch < {self.before_batch})"


def published_bronze(bronze: DeltaTable, published: int) -> PublishedBronze:
    """What gold stands for, by the version that its `bronze` transaction says (-1: none yet).

    Batches are numbered through: ingest starts no second checkpoint on a table with rows.
    StorageUnavailable where the commits since then are not in the log any more, UnpublishedChanges
    where rejects were replayed since then.
    """
    newer = bronze.version() - published
    commits = bronze.history(newer) if newer > 0 else []
    if len(commits) < newer:
        raise StorageUnavailable(
            f"{bronze.table_uri} is at version {bronze.version()}, gold was published from "
            f"version {published}, and the log has only {len(commits)} commits since then, so "
            "nobody can tell which rows gold stands for. Nothing was written. Run the pipeline: "
            "its publish brings gold up to bronze."
        )
    notes = [note_of(commit) for commit in commits]
    if replays := [note.id for note in notes if isinstance(note, ReplayedNote)]:
        raise UnpublishedChanges(
            f"Rejects came to {bronze.table_uri} (the replay {replays[0]}) since gold was "
            "published, and their rows have the batches in which they were rejected, so that they "
            "cannot be left out. Nothing was written. Run the pipeline: its publish brings gold up "
            "to bronze."
        )
    batches = [note.batch for note in notes if isinstance(note, IngestNote)]
    return PublishedBronze(bronze.version(), min(batches, default=None))
