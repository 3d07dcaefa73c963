"""Build a pipeline's ledger anew from its tables: each row carries its batch.

What the tables hold is known for ever: the accepted and rejected rows of each batch, as long as
none may have left them, and the windows in `changes`. What was read at the source stands in the
notes of commits, and what was accepted and rejected then, which batch read which versions of bronze
in the checkpoint, and C in gold's log; where those have been cleaned up, a line has no number
there, and no equation.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deltalake import DeltaTable

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import StorageUnavailable
from tidemark.gold.excluded import Excluded
from tidemark.gold.plan import CHANGES, CLOSE
from tidemark.gold.state import gold_state, is_published
from tidemark.ledger.copied_batches import copied_batches
from tidemark.ledger.emitted import Emitted, of_all
from tidemark.ledger.erased import erasures
from tidemark.ledger.ledger import INGEST, LedgerLine
from tidemark.ledger.lines import (
    as_noted,
    erasure_line,
    replay_line,
    retraction_line,
    stream_line,
)
from tidemark.operators.batches_read import Frontier, batches_read
from tidemark.operators.kinds import operator_of
from tidemark.operators.lookups import is_lookup
from tidemark.operators.operator import BRONZE, Equation, Operator, listed
from tidemark.operators.other_inputs import others_published, position, reading
from tidemark.operators.repaired import BACKFILL, CLOSED, LATE, LOOKUP, MIGRATION, OPEN, SEAL
from tidemark.operators.touched import BatchCounts, BatchRead
from tidemark.pipeline.model import Pipeline
from tidemark.storage.delta.by_hand import accepted_to
from tidemark.storage.delta.commits import (
    IngestCommit,
    close_frontiers,
    emitted_rows,
    ingest_commits,
    reaches_back,
    rows_of,
)
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.dropped_rejects import dropped_to
from tidemark.storage.delta.history import changes_between
from tidemark.storage.delta.notes import (
    REPLAY,
    RETRACTION,
    ErasedNote,
    ReplayedNote,
    RetentionNote,
    RetractedNote,
    note_of,
)
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.surviving_commits import surviving_commits
from tidemark.storage.duckdb_in_utc import answers
from tidemark.storage.files import FileMissing, read_bytes
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Ledgered:
    """A pipeline whose ledger is built anew; nothing is changed by reading it.

    `seeds`: of each table in a later generation, the version of bronze that it was computed from.
    """

    pipeline: Pipeline
    warehouse: Warehouse
    seeds: Mapping[str, int] = field(default_factory=dict)

    def checkpoint(self, uri: str) -> Checkpoint:
        return Checkpoint(uri, self.warehouse.options)


def rebuilt_lines(source: Ledgered) -> list[LedgerLine]:
    """All lines that the tables tell, in the order of their kinds and batches."""
    lines = [*_ingest_lines(source), *_retraction_lines(source), *_replay_lines(source)]
    lines += [erasure_line(one.id, one.rows["bronze"], None) for one in erasures(source.warehouse)]
    for name in source.pipeline.tables:
        if _is_made(source.warehouse, name):
            lines += _stream_lines(source, name)
            lines += _recomputed_lines(source, name)
    return lines


def _is_made(warehouse: Warehouse, name: str) -> bool:
    """Not where no run has made the table, or its gold was moved away: the run that makes gold
    again accounts for its batches. A history that is gone beside a published gold is lost."""
    gold = warehouse.gold(name).open()
    if gold is None:
        return False
    return is_published(gold) or warehouse.changes(name, generation_of(gold)).open() is not None


def _ingest_lines(source: Ledgered) -> Iterator[LedgerLine]:
    bronze, rejects = source.warehouse.bronze.existing(), source.warehouse.rejects.existing()
    checkpoint = source.checkpoint(source.warehouse.places.ingest_checkpoint)
    query, erased = str(checkpoint.query_id()), any(erasures(source.warehouse))
    drops = erased or source.pipeline.keep is not None
    of_bronze = _Appended.to(bronze, query, drops)
    of_rejects = _Appended.to(rejects, query, erased, dropped_to(rejects))
    notes = {**of_bronze.commits, **of_rejects.commits}
    by_batch = "SELECT _batch, count(*) FROM rows GROUP BY 1"
    accepted = Counter(dict(answers(by_batch, rows=dataset_of(bronze))))
    if (retracted := source.warehouse.retracted.open()) is not None:
        accepted += Counter(dict(answers(by_batch, rows=dataset_of(retracted))))
    rejected: defaultdict[int, Counter[str]] = defaultdict(Counter)
    by_reason = "SELECT _batch, reason, count(*) FROM rows GROUP BY 1, 2"
    for batch, reason, count in answers(by_reason, rows=dataset_of(rejects)):
        rejected[batch][reason] = count
    # What a batch rejected it has rejected, also where its rows are in bronze by now.
    if (replayed := source.warehouse.replayed.open()) is not None:
        for batch, reason, count in answers(by_reason, rows=dataset_of(replayed)):
            rejected[batch][reason] += count
            accepted[batch] -= count
    last = checkpoint.last_batch("commits")
    batches = range(0 if last is None else last + 1)
    untold = {*of_bronze.untold(batches), *of_rejects.untold(batches)}
    for batch in _ended(checkpoint, {*accepted, *rejected, *notes, *untold}):
        note = notes.get(batch)
        rows, reasons = (note.rows.accepted, note.rows.rejected) if note else (None, None)
        if of_bronze.is_whole(batch):
            rows = accepted.get(batch, 0)
        if of_rejects.is_whole(batch):
            reasons = rejected[batch]
        line = LedgerLine(
            kind=INGEST,
            source=query,
            position=batch,
            batch=batch,
            read=note.rows.read if note else None,
            accepted=rows,
            rejected=None if reasons is None else sum(reasons.values()),
            reasons=dict(sorted((reasons or {}).items())),
        )
        yield as_noted(line, note)


@dataclass(frozen=True)
class _Appended:
    """What ingest appended to a table: the commits of its batches, as far as the log tells them.

    `changed` is the version up to which rows may have left the table since, or were changed by hand
    and that was accepted; -1: none have. `dropped_to` is the batch up to which they were dropped.
    There what a batch's commit said counts, and not what is left. `reaches_back`: the log tells all
    of them.
    """

    commits: Mapping[int, IngestCommit]
    changed: int
    dropped_to: int
    reaches_back: bool

    @classmethod
    def to(cls, table: DeltaTable, query: str, drops: bool, dropped_to: int = -1) -> _Appended:
        """`drops`: rows of it may have gone in a commit that is out of the log."""
        notes = ((note_of(one), int(one["version"])) for one in newest_first(table))
        gone = (at for note, at in notes if isinstance(note, RetentionNote | ErasedNote))
        changed = max(next(gone, 0 if drops else -1), accepted_to(table))
        commits = ingest_commits(table, query, -1)
        return cls(commits, changed, dropped_to, reaches_back(table, 0))

    def is_whole(self, batch: int) -> bool:
        """Does the table hold just what it got of a batch, but for what our acts moved?"""
        own = self.commits.get(batch)
        is_before = self.changed >= 0 and (own is None or own.version <= self.changed)
        return batch > self.dropped_to and not is_before

    def untold(self, batches: range) -> Iterator[int]:
        """Those that may have appended rows of which nothing tells any more."""
        first = min(self.commits, default=batches.stop)
        early = () if self.reaches_back else batches[:first]
        return (one for one in early if not self.is_whole(one))


def _retraction_lines(source: Ledgered) -> Iterator[LedgerLine]:
    """Of each act that bronze's log knows, or whose rows are in `retracted`."""
    history = source.warehouse.bronze.existing().history()
    notes = [note_of(commit) for commit in surviving_commits(history)]
    acts = {note.id: note for note in notes if isinstance(note, RetractedNote)}
    undone = {note.undoes for note in acts.values()}
    there: dict[str, int] = {}
    if (retracted := source.warehouse.retracted.open()) is not None:
        sql = f"SELECT {RETRACTION}, count(*) FROM rows GROUP BY 1"
        there = dict(answers(sql, rows=dataset_of(retracted)))
    for act in sorted({*acts, *there}):
        note = acts.get(act)
        if note is None:
            yield retraction_line(act, None, there[act], None)
        elif note.undoes is not None or act in undone:
            yield retraction_line(act, note.undoes, note.rows, note.rows)
        else:
            yield retraction_line(act, None, there.get(act, 0), note.rows)


def _replay_lines(source: Ledgered) -> Iterator[LedgerLine]:
    """Of each replay whose rejects are in `replayed`; how many rows bronze got, by its log."""
    if (replayed := source.warehouse.replayed.open()) is None:
        return
    history = source.warehouse.bronze.existing().history()
    found = ((note_of(commit), rows_of(commit)) for commit in surviving_commits(history))
    appended = {note.id: rows for note, rows in found if isinstance(note, ReplayedNote)}
    by_act = f"SELECT {REPLAY}, count(*) FROM rows GROUP BY 1 ORDER BY 1"
    for act, moved in answers(by_act, rows=dataset_of(replayed)):
        yield replay_line(act, moved, appended.get(act))


def _stream_lines(source: Ledgered, name: str) -> Iterator[LedgerLine]:
    operator = reading(operator_of(source.pipeline, name), source.warehouse)
    gold = source.warehouse.gold(name).existing()
    generation = gold_state(gold).generation
    checkpoint = source.checkpoint(source.warehouse.places.query_checkpoint(name, generation))
    query = str(checkpoint.query_id())
    others = others_published(operator, source.warehouse, {})
    copied = copied_batches(source.warehouse.batches, source.pipeline.name, query, others)
    changes = source.warehouse.changes(name, generation).existing()
    bronze, frontier = source.warehouse.bronze, _frontier(source, name, changes, query)
    excluded = Excluded.of(operator.rows_in(bronze.existing()), bronze, changes, generation)
    counted = {
        number: counts
        for batch in batches_read(
            checkpoint,
            source.seeds.get(name, -1),
            frontier,
            copied,
            operator.traits.closed_to_ms,
            others,
        )
        if (number := batch.number) is not None
        for counts in _counts(excluded, batch)
    }
    emitted = _emitted(changes, operator, generation, query)
    for batch in _ended(checkpoint, {*counted, *emitted}):
        yield stream_line(name, operator, query, batch, counted.get(batch), emitted)


def _ended(checkpoint: Checkpoint, batches: set[int | None]) -> list[int]:
    """In order, without one that a run left in the middle: the next one, which repeats it, has its
    line. Nor with what no batch is, which rows that were added by hand may name."""
    committed = checkpoint.last_batch("commits")
    last = -1 if committed is None else committed
    return sorted(one for one in batches if one is not None and one <= last)


def _frontier(source: Ledgered, name: str, changes: DeltaTable, query: str) -> Frontier:
    """The frontier that the batch noted; of one that appended nothing, what gold's log says."""
    known = publishes(source.warehouse.gold(name))
    noted = close_frontiers(changes, query, -1)

    def close_ms(batch: int | None, first: int) -> int:
        found = None if batch is None else noted.get(batch)
        return close_before_ms(known, first) if found is None else found

    return close_ms


def _counts(excluded: Excluded, batch: BatchRead) -> tuple[BatchCounts, ...]:
    """None where the log no longer tells which files the batch read."""
    try:
        found = excluded.rows.touched(excluded.place, [batch], None, 0)
        return excluded.counted(found.batches)
    except StorageUnavailable:
        return ()


def _emitted(changes: DeltaTable, operator: Operator, generation: int, query: str) -> Emitted:
    if operator.traits.equation is None:
        return {}
    if operator.traits.equation is Equation.ALL:
        return of_all(emitted_rows(changes, query, -1))
    sql = f"""
        SELECT batch, sum("rows")::BIGINT, sum(_before)::BIGINT FROM (
            SELECT batch, "rows",
                coalesce(lag("rows") OVER (
                    PARTITION BY {listed(operator.identity)} ORDER BY batch), 0) AS _before
            FROM rows WHERE cause IN ('stream', '{MIGRATION}') AND generation = {generation}
        ) WHERE batch >= 0 GROUP BY batch
    """
    found = answers(sql, rows=dataset_of(changes))
    return {batch: (now, before) for batch, now, before in found}


def _recomputed_lines(source: Ledgered, name: str) -> Iterator[LedgerLine]:
    """What was appended of each cause by each run; what bronze held then is not known any more."""
    operator = operator_of(source.pipeline, name)
    gold = gold_state(source.warehouse.gold(name).existing(), operator.inputs)
    changes = source.warehouse.changes(name, gold.generation).existing()
    checkpoint = source.checkpoint(source.warehouse.places.query_checkpoint(name, gold.generation))
    query = str(checkpoint.query_id())
    of_inputs = position(operator, source.warehouse, gold.inputs)
    closed = gold.close_ms + of_inputs
    positions = {
        LATE: sum(at for name, at in gold.inputs.items() if not is_lookup(name)),
        OPEN: gold.bronze,
        CLOSED: closed,
        SEAL: closed,
        LOOKUP: of_inputs,
        BACKFILL: changes.version(),
        MIGRATION: source.seeds.get(name, -1),
    }
    causes = ", ".join(f"'{cause}'" for cause in positions)
    sql = f"""
        SELECT cause, count(*), sum("rows")::BIGINT
        FROM rows WHERE cause IN ({causes}) AND generation = {gold.generation}
        GROUP BY cause, run ORDER BY ALL
    """
    pending = changes_between(changes, gold.changes, changes.version())
    waiting = set(pending.column("cause").to_pylist())
    for cause, windows, rows in answers(sql, rows=dataset_of(changes)):
        yield LedgerLine(
            kind=cause,
            source=f"{query}/{cause}",
            position=positions[cause],
            table=name,
            windows=windows,
            published=rows,
            waits=cause in waiting,
        )


@dataclass(frozen=True)
class Publish:
    """A commit of gold, and what it says was published: versions, and C in milliseconds."""

    version: int
    changes: int
    bronze: int
    close_ms: int


def publishes(place: TablePlace) -> tuple[Publish, ...]:
    """The publishes of a gold table, oldest first; those whose log entries are gone are left
    out."""
    found = []
    for version in range(place.existing().version(), -1, -1):
        try:
            entry = read_bytes(f"{place.uri}/_delta_log/{version:020}.json", place.options)
        except FileMissing:
            break
        actions = [json.loads(line) for line in entry.splitlines()]
        said = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
        if CHANGES in said:
            found.append(Publish(version, said[CHANGES], said[BRONZE], said[CLOSE]))
    return tuple(reversed(found))


def close_before_ms(known: Sequence[Publish], first_version: int) -> int:
    """The close frontier that a batch found whose first version of bronze is given."""
    before = [one.close_ms for one in known if one.bronze < first_version]
    return before[-1] if before else 0
