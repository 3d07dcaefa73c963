"""What an earlier try of an ingest batch has committed: read from the tables themselves.

Each append carries the transaction (query, batch) and a note with the batch's counts and its
verdicts on whole parts of the source. Both are atomic with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TableMismatch
from tidemark.sources.source import PartVerdict, Reading
from tidemark.storage.delta.dropped_rejects import dropped_to
from tidemark.storage.delta.notes import IngestNote, note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows


@dataclass(frozen=True)
class Committed:
    """A batch that an earlier try has committed, wholly or up to bronze.

    `rows` are its counts, `reading` its verdicts on whole parts and what was seen of others,
    `max_line_bytes` how large a line was taken (None: of any size), `jump_after_us` after which
    event time rows were rejected as a jump (None: there was none), `scheduled_ms` the scheduled
    time of the run that committed first (None: the note is older than that entry). It is complete
    when its rejects are committed as well, or when it has none.
    """

    rows: Rows
    reading: Reading
    max_line_bytes: int | None
    jump_after_us: int | None
    scheduled_ms: int | None
    is_complete: bool


def commit_note(
    query: str,
    batch: int,
    rows: Rows,
    reading: Reading,
    max_line_bytes: int | None,
    scheduled_ms: int,
    jump_after_us: int | None = None,
    run: str | None = None,
) -> IngestNote:
    """What the commit of an append says of its batch.

    `scheduled_ms` is the scheduled time of the run that committed the accepted rows, `run` the run
    that makes this commit.
    """
    return IngestNote(
        query=query,
        batch=batch,
        rows=rows,
        verdicts=tuple((v.part, v.reason, v.detail) for v in reading.verdicts),
        seen=dict(reading.seen),
        max_line_bytes=max_line_bytes,
        jump_after_us=jump_after_us,
        scheduled_ms=scheduled_ms,
        run=run,
    )


def committed_before(
    checkpoint: Checkpoint, bronze: TablePlace, rejects: TablePlace, batch: int
) -> Committed | None:
    """What the tables say of an earlier try of this batch; None: nothing is committed."""
    in_rejects = _note(checkpoint, rejects, batch)
    note = in_rejects or _note(checkpoint, bronze, batch)
    if note is None:
        return None
    verdicts = tuple(PartVerdict(*entry) for entry in note.verdicts)
    return Committed(
        rows=note.rows,
        reading=Reading((), verdicts, note.seen),
        max_line_bytes=note.max_line_bytes,
        jump_after_us=note.jump_after_us,
        scheduled_ms=note.scheduled_ms,
        is_complete=in_rejects is not None or not sum(note.rows.rejected.values()),
    )


def check_new_checkpoint(checkpoint: Checkpoint, bronze: TablePlace, rejects: TablePlace) -> None:
    """Refuse to begin a source anew over tables that already hold it.

    A lost or moved checkpoint would read all of it again, and the tables would hold each row
    twice: the new query has an identity of its own, so its transactions hide nothing.
    """
    if checkpoint.query_id() is not None:
        return
    for place in (bronze, rejects):
        table = place.open()
        if table is not None and (table.file_uris() or dropped_to(table) >= 0):
            raise TableMismatch(
                f"{place.uri} holds rows, or held some, but its checkpoint {checkpoint.uri} is not "
                "there. To begin anew would read every file a second time. Nothing was read. "
                "Restore the checkpoint, or move the pipeline's whole folder away to start from "
                "the source again."
            )


def _note(checkpoint: Checkpoint, place: TablePlace, batch: int) -> IngestNote | None:
    query = str(checkpoint.query_id())
    table = place.open()
    done = table.transaction_version(query) if table is not None else None
    if table is None or done is None or done < batch:
        return None
    for commit in newest_first(table):
        note = note_of(commit)
        if isinstance(note, IngestNote) and (note.query, note.batch) == (query, batch):
            return note
    raise TableMismatch(
        f"{place.uri} says that batch {batch} of query {query} is committed, but no commit in its "
        "log is that batch: the checkpoint is older than the table. Nothing was written. Restore "
        "the checkpoint and the table from the same moment."
    )
