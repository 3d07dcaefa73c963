"""The ledger's lines from what the tables and a run's repairs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from deltalake import DeltaTable

from tidemark.ledger.emitted import Emitted
from tidemark.ledger.ledger import (
    ERASE,
    INGEST,
    REPLAY,
    RETRACT,
    STREAM,
    UNRETRACT,
    LedgerLine,
)
from tidemark.operators.operator import Equation, Operator
from tidemark.operators.repaired import Recomputed
from tidemark.operators.touched import BatchCounts
from tidemark.pipeline.instants import STAMP
from tidemark.storage.delta.commits import IngestCommit, ingest_commits


def ingest_lines(
    bronze: DeltaTable, rejects: DeltaTable, query: str, after_batch: int
) -> list[LedgerLine]:
    """A line for each batch that appended anything; a batch without rows has none.

    `read` is what was counted at the source, as are offsets; the others are the commits' own row
    counts.
    """
    accepted = ingest_commits(bronze, query, after_batch)
    rejected = ingest_commits(rejects, query, after_batch)
    return [
        _ingest_line(query, batch, accepted.get(batch), rejected.get(batch))
        for batch in sorted(accepted.keys() | rejected.keys())
    ]


def _ingest_line(
    query: str, batch: int, accepted: IngestCommit | None, rejected: IngestCommit | None
) -> LedgerLine:
    # Where a batch was repeated, the note beside its rejects was written last.
    note = rejected or accepted
    assert note is not None
    line = LedgerLine(
        kind=INGEST,
        source=query,
        position=batch,
        batch=batch,
        read=note.rows.read,
        accepted=accepted.appended if accepted else 0,
        rejected=rejected.appended if rejected else 0,
        reasons=note.rows.rejected,
    )
    return as_noted(line, note)


def as_noted(line: LedgerLine, note: IngestCommit | None) -> LedgerLine:
    """The line of a batch with what its note says of offsets, of records that are no row by
    themselves, and of rows that rules count; as it is where it tells of none."""
    if note is not None:
        line = replace(line, counted=note.rows.counted)
    if note is not None and (records := note.rows.records) is not None:
        line = replace(
            line,
            other_records=records.other,
            without_elements=records.without_elements,
            exploded=records.exploded,
            elements=records.elements,
        )
    if note is None or note.rows.offsets is None:
        return line
    return replace(
        line,
        offsets=note.rows.offsets,
        without_record=note.rows.without_record,
        rejected_parts=note.parts,
    )


def stream_lines(
    name: str, operator: Operator, query: str, batches: Sequence[BatchCounts], emitted: Emitted
) -> Iterator[LedgerLine]:
    """A line for each batch of a table's query that the checkpoint still keeps."""
    for counts in batches:
        if counts.batch.number is not None:
            yield stream_line(name, operator, query, counts.batch.number, counts, emitted)


def stream_line(
    name: str,
    operator: Operator,
    query: str,
    batch: int,
    counts: BatchCounts | None,
    emitted: Emitted,
) -> LedgerLine:
    """The line of one batch. Where its rows were not counted, it has no equation.

    A batch that emitted nothing that changed is not in `emitted`: that is 0. Else it is unknown:
    there may be no equation, and the commit that tells the sum over all of the batch before may
    be out of the log.
    """
    changed = operator.traits.equation is Equation.CHANGED
    now, before = emitted.get(batch, (0, 0) if changed else (None, None))
    return LedgerLine(
        kind=STREAM,
        source=query,
        position=batch,
        table=name,
        batch=batch,
        assigned=counts.assigned if counts else None,
        late_rows=counts.wholly_late if counts else None,
        partly_late_rows=counts.partly_late if counts else None,
        late_assigned=counts.late_assigned if counts else None,
        late_windows=counts.late_groups if counts else None,
        frozen_assigned=counts.frozen if counts else None,
        set_aside=counts.excluded or None if counts else None,
        not_counted=counts.not_counted or None if counts else None,
        without_match=counts.without_match or None if counts else None,
        emitted=now,
        emitted_before=before,
        expects_late=operator.traits.equation is not Equation.ALL,
    )


def retraction_line(act: str, undoes: str | None, moved: int, of_bronze: int | None) -> LedgerLine:
    """The line of an act: how many rows `retracted` got, and how many bronze lost (None: its log
    does not tell any more), or the other way. By its id it comes behind those before."""
    kind = RETRACT if undoes is None else UNRETRACT
    return _line_of_act(kind, RETRACT, act, moved, of_bronze)


def replay_line(act: str, moved: int, of_bronze: int | None) -> LedgerLine:
    """The line of a replay: how many rejects `replayed` got, and how many rows bronze (None: its
    log does not tell any more)."""
    return _line_of_act(REPLAY, REPLAY, act, moved, of_bronze)


def erasure_line(act: str, erased: int, of_bronze: int | None) -> LedgerLine:
    """The line of an erasure: how many rows were to be erased, and how many bronze lost (None: no
    log tells any more)."""
    return _line_of_act(ERASE, ERASE, act, erased, of_bronze)


def _line_of_act(kind: str, source: str, act: str, moved: int, of_bronze: int | None) -> LedgerLine:
    planned = datetime.strptime(act, STAMP).replace(tzinfo=UTC)
    return LedgerLine(
        kind=kind,
        source=source,
        position=int(planned.timestamp()),
        published=moved,
        in_bronze=of_bronze,
    )


def recomputed_lines(
    name: str, query: str, positions: Mapping[str, int], recomputed: Sequence[Recomputed]
) -> Iterator[LedgerLine]:
    """A line for each computation from bronze, told from those of other lives of the table by
    the id of its query.

    `positions`, by cause, say what a computation rests on, so that a repeat of it has the same,
    and the next one a higher: the version of bronze for late rows, the frontier for a seal.
    """
    for one in recomputed:
        yield LedgerLine(
            kind=one.cause,
            source=f"{query}/{one.cause}",
            position=positions[one.cause],
            table=name,
            windows=one.windows,
            published=one.rows,
            in_bronze=one.rows_in_bronze,
        )
