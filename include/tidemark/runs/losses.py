"""Was anything lost, restored, replaced or changed by hand? Asked before a run reads a row.

What a publish rests on stands in gold's transactions with its identity and how far it had come
(`gold/plan.py`). What came since rests on each other too: a batch's commits carry (query, batch),
and a table's offsets the id of bronze and the version that they read to. So it is found that
- a table or a checkpoint is gone beside what rests on it;
- it is another one: by its id, whatever its number says;
- it went back: behind what was published or read of it, or without the commit of a batch that
  its checkpoint has committed; or the checkpoint is behind the tables;
- a commit changed rows that is none of ours;
- dates of bronze that a table's open windows need were dropped while it was out of the file;
- rejects were replayed, and their rows are not in bronze;
- a file of a checkpoint that the next start reads is empty, cut off or gone, as a power loss leaves
  it: the doctor's judgement, as far as logs, lists and a listing of the state tell;
- where nothing of this is so, that the ledger is of another moment (`ledger_fit.py`).
Gold alone may be gone or go back: it is built from `changes`, and the next publish makes up for it,
as long as maintenance has left there what has to be read again.

A warehouse of a version that did not note what gold rests on is asked what can be told of it, and
notes it with its next publish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TypeVar

from deltalake import DeltaTable

from tidemark.checkpoint.doctor.findings import FindingKind, Severity
from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.reading.read import Limits, read_checkpoint
from tidemark.checkpoint.reading.source_offsets import DeltaOffset, source_offset
from tidemark.errors import CheckpointUnreadable, NotACheckpoint, TableLost
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.pins import TableResult
from tidemark.gold.plan import CHANGES, IDENTITIES, accepted_name, entry_name, noted_name
from tidemark.gold.retention import date_of, frozen_before_ms, needed_from_ms
from tidemark.gold.state import gold_state, is_published
from tidemark.operators.kinds import operator_of
from tidemark.operators.other_inputs import other_pipeline, other_places
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import FIRST_GENERATION, INGEST
from tidemark.runs.clocks import SIDES
from tidemark.runs.found import QUERY, FoundQuery, FoundTable, TableInventory, found_tables
from tidemark.runs.generations import abandoned
from tidemark.runs.ledger_fit import misfits
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.storage.delta.appended import entry_mark, lacking_at, lacking_from
from tidemark.storage.delta.by_hand import HandCommit, commits_by_hand, last_publish
from tidemark.storage.delta.commits import commits_after, ingest_commits, reaches_back
from tidemark.storage.delta.notes import (
    EmittedNote,
    ErasedNote,
    RecomputedNote,
    ReplayedNote,
    RetentionNote,
    RetractedNote,
    RewoundNote,
    note_of,
)
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.surviving_commits import surviving_commits
from tidemark.storage.file_place import one_look
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse

_Note = TypeVar("_Note", RewoundNote, RetractedNote, ErasedNote)
_MOST_SHOWN = 5
# So often at most whoever holds no lease looks, where somebody took it meanwhile: what is found in
# one place before a commit and in another behind it does not fit either.
LOOKS = 3
# Leftovers, which are told by their age, are nothing to a run.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Loss:
    """A table or a checkpoint that does not fit what rests on it.

    `what` names both sides, `at_most` what is lost at most, `way_out` what to do. `by_hand` are the
    commits where it is rows that were changed by hand: they can be accepted. `rewound`: it was
    taken back by a rewind, or lost rows by a retraction or an erasure, since which the table has
    not begun anew.
    """

    name: str
    place: str
    what: str
    at_most: str
    way_out: str
    by_hand: tuple[HandCommit, ...] = ()
    rewound: bool = False

    @property
    def facts(self) -> dict[str, str]:
        """The loss as JSON has it."""
        return {
            "name": self.name,
            "place": self.place,
            "what": self.what,
            "at_most": self.at_most,
            "way_out": self.way_out,
        }

    def __str__(self) -> str:
        return f"{self.what} {self.at_most} {self.way_out}"


class _Verdict(StrEnum):
    """How what is there does not fit what somebody claims to have published or read of it."""

    GONE = "gone"
    ANOTHER = "another"
    BEHIND = "behind"


# What is wrong and what is lost at most, by who claims it and how it does not fit. Filled with the
# place, id and position of what is there (`uri`, `id`, `at`, `next`), with what is claimed (`to`),
# with the table and places that claim it.
_TEXTS: Mapping[tuple[str, _Verdict], tuple[str, str]] = {
    ("needed", _Verdict.GONE): (
        "{uri} is not there, and {needs}.",
        "Lost at most: all that it held.",
    ),
    ("table published from", _Verdict.ANOTHER): (
        "{uri} is another table (its id is {id}) than the one that gold of {table} was published "
        "from ({gold}).",
        "Lost at most: all of the former {name}.",
    ),
    ("table published from", _Verdict.BEHIND): (
        "{uri} is at version {at}, and gold of {table} was published from its version {to} "
        "({gold}).",
        "Lost at most: what the versions {next} to {to} and any later one held.",
    ),
    ("query published from", _Verdict.ANOTHER): (
        "{uri} is the checkpoint of another query ({id}) than the one that gold of {table} was "
        "published from ({gold}).",
        "Lost at most: the state of the former query, and which of its input it has read.",
    ),
    ("query published from", _Verdict.BEHIND): (
        "The last committed batch of {uri} is {at}, and gold of {table} was published from its "
        "batch {to} ({gold}).",
        "Lost at most: what it knew of the batches {next} to {to} and any later one; they would "
        "run again over other input.",
    ),
    ("batch held", _Verdict.BEHIND): (
        "The last planned batch of {uri} is {at}, and {holder} holds its batch {to}.",
        "Lost at most: what it knew of the batches {next} to {to}; other input would get their "
        "numbers, and be left out as known.",
    ),
    ("bronze read", _Verdict.ANOTHER): (
        "{uri} is another table (its id is {id}) than the one that the query of {table} has read "
        "(id {read_id}; {query}).",
        "Lost at most: all of the former bronze.",
    ),
    ("other read", _Verdict.ANOTHER): (
        "{uri} is another table (its id is {id}) than the ones that the query of {table} has read "
        "({query}).",
        "Lost at most: all of the former one.",
    ),
    **dict.fromkeys(
        (("bronze read", _Verdict.BEHIND), ("other read", _Verdict.BEHIND)),
        (
            "{uri} is at version {at}, and the query of {table} has read it up to version {to} "
            "({query}).",
            "Lost at most: what the versions {next} to {to} held.",
        ),
    ),
    ("clock read", _Verdict.ANOTHER): (
        "{uri} is another or an older table than the one that the query of {table} has read "
        "({query}).",
        "Lost at most: clock rows, which say nothing that bronze does not.",
    ),
    ("pinned", _Verdict.BEHIND): (
        "{uri} {found}, and the run that is to be published found the id {pinned_id} at {to}.",
        "Lost at most: what that run and those since the last publish wrote.",
    ),
    ("replayed", _Verdict.BEHIND): (
        "{uri} (version {at}) does not hold the {rows} rows of the replay {act}, whose rejects are "
        "in `replayed` by now.",
        "Lost at most: these rows, and what came since.",
    ),
    ("batch committed", _Verdict.BEHIND): (
        "{uri} (version {at}) does not hold batch {to}, which {holder} {known}.",
        "Lost at most: that batch and any before it that is not published.",
    ),
}


def _loss(
    table: TableInventory,
    one: FoundTable | FoundQuery,
    claim: str,
    verdict: _Verdict,
    at: int | None = None,
    to: int | None = None,
    **words: object,
) -> Loss:
    """A claim on `one` that does not hold, in words; `at` is how far it is, `to` how far it was."""
    there = one.at if at is None else at
    what, at_most = (
        text.format(
            uri=one.uri,
            id=one.id,
            name=one.name,
            at=there,
            next=there + 1,
            to=to,
            table=table.name,
            gold=table.gold.uri,
            query=table.query.uri,
            **words,
        )
        for text in _TEXTS[claim, verdict]
    )
    return Loss(one.name, one.uri, what, at_most, _way_out(table, one))


def _gone(table: TableInventory, one: FoundTable | FoundQuery, needs: str) -> Loss:
    return _loss(table, one, "needed", _Verdict.GONE, needs=needs)


def check_losses(
    pipeline: Pipeline,
    warehouse: Warehouse,
    pinned: Mapping[str, TableResult] | None = None,
    by_hand: bool = True,
    rebuilt: str | None = None,
) -> None:
    """Raises TableLost, with all that was found; nothing is written either way.

    `pinned` are what a held run found, by table. `by_hand` False: what was changed by hand is no
    obstacle but in gold, as to what computes again from bronze as it is. Nor is what was lost of
    the query and the history of the table `rebuilt`, of the other bronze that it joins with, or
    gold of it that is gone.
    """
    mended = () if rebuilt is None else _rebuilt_places(pipeline, warehouse, rebuilt)
    golds = [warehouse.gold(name).uri for name in pipeline.tables]
    found = [
        loss
        for loss in find_losses(pipeline, warehouse, pinned)
        if (by_hand or not loss.by_hand or loss.place in golds)
        and loss.place not in mended
        and not (loss.rewound and rebuilt is not None)
    ]
    if found:
        lines = [f"{pipeline.name} cannot go on, and no retry will help:"]
        lines += [f"  - {loss}" for loss in found]
        lines.append("Nothing was written: tables and checkpoints are as they were found.")
        raise TableLost("\n".join(lines))


def _rebuilt_places(pipeline: Pipeline, warehouse: Warehouse, table: str) -> tuple[str, ...]:
    """The history and the checkpoint of a table, its clock rows among it, the bronzes of others
    that it reads as they are now, and gold where it is gone."""
    gold = warehouse.gold(table)
    found = gold.open()
    generation = generation_of(found)
    checkpoint = query_checkpoint(warehouse, table, generation)
    clocks = (warehouse.clock(table, generation, side).uri for side in SIDES)
    others = (place.uri for place in other_places(operator_of(pipeline, table), warehouse).values())
    query = (warehouse.changes(table, generation).uri, checkpoint.uri, *clocks, *others)
    return query if found is not None and is_published(found) else (*query, gold.uri)


def find_losses(
    pipeline: Pipeline, warehouse: Warehouse, pinned: Mapping[str, TableResult] | None = None
) -> tuple[Loss, ...]:
    """All that does not fit, each place once, and once for each table that a rebuild mends. Reads
    logs and checkpoints, and no row."""
    with one_look():
        return _find_losses(pipeline, warehouse, pinned)


def _find_losses(
    pipeline: Pipeline, warehouse: Warehouse, pinned: Mapping[str, TableResult] | None
) -> tuple[Loss, ...]:
    damaged = {loss.place: loss for loss in _damaged(pipeline, warehouse)}
    # What a rebuild mends of a table hides nothing else of the place.
    found = {(loss.place, ""): loss for loss in damaged.values()}
    try:
        tables = tuple(found_tables(pipeline, warehouse))
    except CheckpointUnreadable:
        if not damaged:
            raise
        return tuple(found.values())
    for table in tables:
        for loss in _of(table, tables, (pinned or {}).get(table.name), damaged):
            if loss.place not in damaged:
                key = loss.place, loss.way_out if loss.rewound else ""
                known = found.setdefault(key, loss)
                # One table may have accepted what another one has not.
                if known.by_hand and len(loss.by_hand) > len(known.by_hand):
                    found[key] = loss
    return tuple(found.values()) or _of_ledger(tables, pipeline.name, warehouse)


def _of_ledger(
    tables: tuple[TableInventory, ...], pipeline: str, warehouse: Warehouse
) -> tuple[Loss, ...]:
    misfit = next(misfits(tables, warehouse.ledger), None)
    if misfit is None:
        return ()
    return (
        Loss(
            "ledger",
            warehouse.ledger.uri,
            misfit,
            "Lost at most: lines of the ledger; a run would leave out more of them.",
            f"`tidemark ledger rebuild {pipeline}` makes its lines of what the tables tell, and "
            "runs go on. Or restore all of the pipeline's folder, with its `ops`, from one backup.",
        ),
    )


def _of(
    table: TableInventory,
    tables: tuple[TableInventory, ...],
    pinned: TableResult | None,
    damaged: Mapping[str, Loss],
) -> Iterator[Loss]:
    """What rests on a damaged checkpoint, or it on, is not asked."""
    if _gold_is_another(table):
        yield _another_gold(table)
        return
    if table.ingest.uri not in damaged:
        yield from _of_ingest(table, tables)
    if table.query.uri not in damaged:
        yield from _of_table(table)
    if not {table.ingest.uri, table.query.uri} & damaged.keys():
        yield from _against_pins(table, pinned)


def _damaged(pipeline: Pipeline, warehouse: Warehouse) -> Iterator[Loss]:
    """Checkpoints in use that a start could not go on with, or only in a wrong way."""
    yield from _damage_of(INGEST, ingest_checkpoint(warehouse), pipeline.name, QueryFacts())
    for name, table in pipeline.tables.items():
        generation = generation_of(warehouse.gold(name).open())
        checkpoint = query_checkpoint(warehouse, name, generation)
        known = QueryFacts(keeps_state=False if table.recomputes else None)
        yield from _damage_of(QUERY, checkpoint, pipeline.name, known, name)


def _damage_of(
    name: str, checkpoint: Checkpoint, pipeline: str, known: QueryFacts, table: str | None = None
) -> Iterator[Loss]:
    try:
        # One listing, of which all that is asked for below is a part.
        checkpoint.files()
        # Whether a source's file is gone is a verdict of the batch that reads it.
        limits = Limits(log_files=2, listed_files=1, state_files=0, in_store=False)
        facts = read_checkpoint(checkpoint, limits)
    except NotACheckpoint:
        return
    damage = [
        one
        for one in judge_checkpoint(facts, _LONG_AGO, known).findings
        if one.severity is Severity.DAMAGE and one.kind is not FindingKind.SOURCE_FILES
    ]
    if damage:
        rebuild = (
            ""
            if table is None
            else (
                f" Bronze has all rows: `tidemark migrate {pipeline} --rebuild {table}` computes "
                "the table from them."
            )
        )
        yield Loss(
            name,
            checkpoint.uri,
            f"The checkpoint {checkpoint.uri} is damaged: " + " ".join(one.known for one in damage),
            f"At risk: {damage[0].at_risk}",
            f"{damage[0].advice}{rebuild} `tidemark checkpoint doctor {pipeline}` tells more.",
        )


def _of_ingest(table: TableInventory, tables: tuple[TableInventory, ...]) -> Iterator[Loss]:
    """What all tables share: bronze, rejects and the checkpoint that fills them."""
    ingest = table.ingest
    readers = [one.query for one in tables]
    for one, used_by in ((table.bronze, [ingest, *readers]), (table.rejects, [ingest])):
        if one.table is None and (started := [query for query in used_by if query.planned >= 0]):
            yield _gone(table, one, f"the checkpoint {started[0].uri} has batches")
        elif one.table is not None:
            # No query reads rejects: where another table's gold tells of them, that is enough.
            if one is table.bronze or _is_published(table) or not any(map(_is_published, tables)):
                yield from _against_gold(table, one)
            yield from _ahead_of_checkpoint(table, one, ingest)
    yield from _query_against_gold(table, ingest)
    if table is tables[0] and table.bronze.table is not None:
        yield from _replay_lost(table, table.bronze.table)
    if table.bronze.table is not None and table.rejects.table is not None:
        yield from _batches_of_ingest(table, table.bronze.table, table.rejects.table)


def _replay_lost(table: TableInventory, bronze: DeltaTable) -> Iterator[Loss]:
    """Bronze without the rows of the last replay, whose rejects are elsewhere by now."""
    if (replayed := table.warehouse.replayed.open()) is None:
        return
    # What comes behind it are fences and maintenance.
    notes = (note_of(commit) for commit in newest_first(replayed))
    note = next((one for one in notes if isinstance(one, ReplayedNote)), None)
    if note is not None and bronze.transaction_version(note.transaction) is None:
        behind = _Verdict.BEHIND
        yield _loss(table, table.bronze, "replayed", behind, act=note.id, rows=f"{note.rows:,}")


def _of_table(table: TableInventory) -> Iterator[Loss]:
    changes, query, gold = table.changes, table.query, table.gold.table
    if changes.table is None:
        if query.planned >= 0:
            yield _gone(table, changes, f"its query has batches ({query.uri})")
        elif gold is not None and is_published(gold):
            yield _gone(table, changes, f"gold was published from it ({table.gold.uri})")
    else:
        yield from _against_gold(table, changes)
        yield from _ahead_of_checkpoint(table, changes, query)
        yield from _batches_of_query(table, changes.table)
    yield from _query_against_gold(table, query)
    yield from _against_offsets(table)
    yield from _of_others(table)
    yield from _of_clocks(table)
    yield from _gold_by_hand(table)
    yield from _of_generations(table)
    yield from _gold_behind_history(table)


def _of_generations(table: TableInventory) -> Iterator[Loss]:
    """Gold is gone, or of before a migration whose generation has run since. A migration that was
    killed leaves one that never ran, and no loss beside a gold that is there."""
    gold, later = table.gold, table.later

    def has_run(generation: int) -> bool:
        checkpoint = query_checkpoint(table.warehouse, table.name, generation)
        return checkpoint.last_batch("commits") is not None

    if gold.table is not None:
        left = abandoned(gold.table)
        later = tuple(number for number in later if has_run(number) and number > left)
    if not later:
        return
    what, first = "is gone", ""
    if gold.table is not None:
        what, first = f"is of generation {table.generation}", f"move {gold.uri} away, and "
    yield Loss(
        gold.name,
        gold.uri,
        f"{gold.uri} {what}, and {table.name} was migrated to generation {later[-1]} "
        f"({table.query.checkpoint.uri.rpartition('/')[0]}/{later[-1]}).",
        "Lost at most: which windows are closed, with their status and revisions, and what was "
        "published since the migration.",
        "Restore it from a backup of after the migration. Where there is none, bronze still has "
        f"the rows: {first}`tidemark migrate {table.pipeline} --rebuild {table.name}` computes "
        "gold from them; every window has revision 0 then.",
    )


def _gold_behind_history(table: TableInventory) -> Iterator[Loss]:
    """Gold that is gone, empty or older, and what would bring it up to date is gone too: nobody had
    to read it any more."""
    gold = table.gold
    if table.changes.table is None or next(_of_generations(table), None) is not None:
        return
    after = -1 if gold.table is None else gold_state(gold.table).changes
    if (lacking := next(_lacking(table, after), None)) is None:
        return
    what, first = "is not there", ""
    if gold.table is not None:
        what = f"stands for version {after} of {table.changes.uri}" if after >= 0 else "is empty"
        first = f"move {gold.uri} away, and "
    yield Loss(
        gold.name,
        gold.uri,
        f"{gold.uri} {what}, and a run cannot bring it up to date any more: {lacking}.",
        "Lost at most: which windows are closed, with their status and revisions, and rows of "
        "dates that bronze has dropped (`keep`).",
        "Was it moved away, or is there a newer backup? Then put that back. Else bronze has the "
        f"rows: {first}`tidemark migrate {table.pipeline} --rebuild {table.name}` computes gold "
        "from them; every window has revision 0 then.",
    )


def _lacking(table: TableInventory, after: int) -> Iterator[str]:
    """What is gone of what a run reads to bring gold up to date that stands for a version of
    `changes`; to make it anew (-1), it also looks for late rows in all that the query has read,
    as far as offsets are kept."""
    yield from lacking_from(table.changes.place, after + 1)
    for one in (table.bronze, *table.others) if after < 0 else ():
        began = None if one.table is None else _began_at(table, one, one.table)
        if began is not None and 0 <= began <= one.at:
            yield from lacking_at(one.place, began)
            yield from lacking_from(one.place, began + 1)


def _made_again(table: TableInventory) -> str:
    """Who makes gold again, once it is moved away."""
    if table.generation == FIRST_GENERATION and not table.later and table.changes.table is not None:
        with suppress(CheckpointUnreadable):
            if next(_lacking(table, -1), None) is None:
                return f"the next run builds it again from {table.changes.uri}"
    return (
        f"`tidemark migrate {table.pipeline} --rebuild {table.name}` computes it from bronze, with "
        "revision 0 for every window"
    )


def _is_published(table: TableInventory) -> bool:
    return table.gold.table is not None and is_published(table.gold.table)


def _against_gold(table: TableInventory, one: FoundTable) -> Iterator[Loss]:
    """A table beside what gold's transactions say of it."""
    gold = table.gold.table
    if one.table is None:
        return
    if gold is None or not is_published(gold):
        yield from _before_a_publish(table, one, one.table)
        return
    noted, claim = _noted(table, one), "table published from"
    if noted is None and _is_identified(table):
        yield _loss(table, one, claim, _Verdict.ANOTHER)
        return
    published = noted if noted is not None else gold.transaction_version(one.name)
    if published is not None and published > one.at:
        yield _loss(table, one, claim, _Verdict.BEHIND, to=published)
    elif noted is not None:
        yield from _changed_since(table, one, one.table, noted)


def _before_a_publish(table: TableInventory, one: FoundTable, there: DeltaTable) -> Iterator[Loss]:
    """A table beside a gold that is gone, or that nothing was published into: no transaction tells
    how far it was seen, but the query has read rows, which the next publish will show."""
    # The generation in use is not known then.
    if next(_of_generations(table), None) is not None:
        return
    if (began := _began_at(table, one, there)) is None:
        return
    if one in (table.bronze, *table.others):
        since = f"the query of {table.name} has begun to read it ({table.query.uri})"
        yield from _taken_out(table, one, began, since)
    # What was accepted of another pipeline's bronze went with a gold that is gone.
    own = one not in table.others or table.gold.table is None
    after = began if own else max(began, _accepted(table, one))
    if by_hand := _unaccepted(table, one, there, after, accepted=own):
        yield _by_hand(table, one, by_hand, f"{table.name} has no published gold")


def _began_at(table: TableInventory, one: FoundTable, there: DeltaTable) -> int | None:
    """The version of a table behind which changes by hand matter where no publish noted one; None
    where its query has not begun.

    Of bronze, that which the oldest batch whose offsets are kept has read at least: what was
    before is nothing to the query, or was asked by the runs since.
    """
    if one in (table.bronze, *table.others):
        for batch in table.query.checkpoint.batches("offsets"):
            read = table.query.checkpoint.delta_versions(batch).get(str(one.id))
            if read is not None:
                return read - 1
        return None
    if one is table.changes and table.gold.table is None:
        # Its history may be of before there were notes; a run stops at what lies behind the last.
        ours = (EmittedNote, RecomputedNote)
        noted = (commit for commit in newest_first(there) if isinstance(note_of(commit), ours))
        return next((int(commit["version"]) for commit in noted), -1)
    return -1


def _changed_since(
    table: TableInventory, one: FoundTable, there: DeltaTable, noted: int
) -> Iterator[Loss]:
    """A table that has come as far as gold says, but not by itself."""
    of = f"gold of {table.name} was published from it"
    if _has_another_history(table, one, noted):
        yield Loss(
            one.name,
            one.uri,
            f"Version {noted} of {one.uri} is not the one that gold of {table.name} was published "
            f"from ({table.gold.uri}): it was put back to an older version, and written to since.",
            "Lost at most: what it held before; and what came since, up to that version, is not in "
            "gold.",
            _way_out(table, one),
        )
    yield from (taken := tuple(_taken_out(table, one, noted, f"{of} ({table.gold.uri})")))
    is_other = one in table.others
    if is_other and not taken and _is_cut(one, there, noted):
        what = (
            f"The log of {one.uri} was cut, so that nobody can tell whether rows of it were erased"
        )
        yield _rewound(table, one, what, f"{of} ({table.gold.uri})", "these rows")
    if gone := _dropped_unasked(table, one, there, noted):
        yield _dates_lost(table, one, gone)
    # What the other pipeline has accepted is its own: who joins with it has to audit too.
    after = max(noted, _accepted(table, one)) if is_other else noted
    if by_hand := _unaccepted(table, one, there, after, accepted=not is_other):
        yield _by_hand(table, one, by_hand, of)


def _unaccepted(
    table: TableInventory, one: FoundTable, there: DeltaTable, after: int, accepted: bool
) -> list[HandCommit]:
    """What was changed by hand behind a version and is not `accepted`: of bronze, for this table,
    which was out of the file where an acceptance does not name it. Gold shows no rejects."""
    of = table.name if one is table.bronze else None
    return commits_by_hand(there, one.place, after, accepted, of)


def _is_cut(one: FoundTable, there: DeltaTable, version: int) -> bool:
    """Does the log of another pipeline's bronze not tell whether it lost rows by an erasure behind
    a version? An erasure cuts it; maintenance leaves what comes behind the version that gold of a
    noted reader stands for. Of its own bronze a run asks for each entry that it has to read."""
    # Of a bronze that it has read nothing of, gold shows nothing.
    return 0 <= version < one.at and not reaches_back(there, version + 1)


def _taken_out(table: TableInventory, one: FoundTable, after: int, since: str) -> Iterator[Loss]:
    """Rows that acts of ours took out of a table, or brought back, behind a version, since which
    the query has not begun anew."""
    if (rewound := next(_notes(one, after, RewoundNote), None)) is not None:
        to = f"version {rewound.to_version} (the rewind {rewound.id})"
        what = f"{one.uri} was taken back to what it was at {to}"
        yield _rewound(table, one, what, since, "its rows that are undone")
    act = next(_notes(one, after, RetractedNote), None)
    if act is not None and not _is_at_work(table, act):
        what = f"{act.rows:,} rows of {one.uri} were retracted, or brought back"
        yield _rewound(table, one, f"{what} (the retraction {act.id})", since, "these rows")
    # Gold shows no rejects, and stays right where no row went.
    erasures = () if one is table.rejects else _notes(one, after, ErasedNote)
    erased = next((note for note in erasures if note.rows), None)
    if erased is not None and not _is_at_work(table, erased):
        what = f"{erased.rows:,} rows of {one.uri} were erased (the erasure {erased.id})"
        yield _rewound(table, one, what, since, "these rows")


def _rewound(table: TableInventory, one: FoundTable, what: str, since: str, rows: str) -> Loss:
    return Loss(
        one.name,
        one.uri,
        f"{what}, since {since}.",
        f"Wrong at most: what gold shows of {rows}.",
        f"`tidemark migrate {table.pipeline} --rebuild {table.name}` computes gold from what is "
        "there by now.",
        rewound=True,
    )


def _is_at_work(table: TableInventory, act: RetractedNote | ErasedNote) -> bool:
    """Is an act not finished, in which the tables begin their generations last?"""
    unfinished = unfinished_act(table.warehouse)
    return unfinished is not None and unfinished.id == act.id


def _dropped_unasked(
    table: TableInventory, one: FoundTable, there: DeltaTable, noted: int
) -> tuple[date, ...]:
    """Dates that retention has dropped of a bronze though this table needs them; oldest first. It
    was out of the pipeline's file and not asked; or it is behind what it has told another pipeline,
    restored alone.

    Whether dates that go are needed is asked with each drop, and what a table needs only moves
    forward: so of its own bronze, of one that was asked nothing is read here."""
    notes = map(note_of, surviving_commits(commits_after(there, noted)))
    dropped = [note for note in notes if isinstance(note, RetentionNote)]
    is_other, gold = one in table.others, table.gold.table
    unasked = {
        day
        for note in dropped
        if is_other or table.name not in (note.tables or ())
        for day in note.dates
    }
    if gold is None or not unasked or (is_other and noted < 0):
        return ()
    first = _first_needed(table, one, there, gold_state(gold).close_ms)
    return tuple(sorted(day for day in unasked if first is not None and day >= first))


def _first_needed(
    table: TableInventory, one: FoundTable, there: DeltaTable, close_ms: int
) -> date | None:
    """The first date of a bronze that a table needs; of another one for what is open, as closed
    rows whose matches may be gone are frozen. None where its own keeps all."""
    operator = table.operator
    if one in table.others:
        return (operator.first_open_start(close_ms) - operator.needed_before(one.name)).date()
    frozen_ms = frozen_before_ms(table.content, table.ingest.checkpoint)
    if frozen_ms is None:
        return None
    return date_of(needed_from_ms(operator, frozen_ms, close_ms, there))


def _dates_lost(table: TableInventory, one: FoundTable, gone: tuple[date, ...]) -> Loss:
    places, number = table.warehouse.places, table.generation
    of_table = places.gold(table.name).rpartition("/")[0]
    of_query = places.query_checkpoint(table.name, number).rpartition("/")[0]
    shown = ", ".join(map(str, gone[:_MOST_SHOWN]))
    more = f" and {len(gone) - _MOST_SHOWN:,} more" if len(gone) > _MOST_SHOWN else ""
    if one in table.others:
        other = other_pipeline(one.name)
        return Loss(
            one.name,
            one.uri,
            f"Dates of {one.uri} were dropped (`keep`) since gold of {table.name} was published "
            f"from it, and windows that this gold has not closed need them ({table.gold.uri}): "
            f"{shown}{more}.",
            "Lost: its rows of these dates; these windows would lack what they match.",
            f"Restore all of the folder of {other} from the backup that {table.name} comes from. "
            f"Or take {table.name} out of the file, and the other tables go on; under another name "
            "it begins anew with what both bronzes have.",
        )
    return Loss(
        one.name,
        one.uri,
        f"Dates of {one.uri} were dropped (`keep`) while {table.name} was out of the pipeline's "
        f"file, and windows that its gold has not closed need them ({table.gold.uri}): "
        f"{shown}{more}.",
        "Lost: bronze's rows of these dates; these windows, computed again, would hold what is "
        "left of theirs.",
        f"Take {table.name} out of the file again, and the other tables go on. Under another name "
        "it begins anew with what bronze has; under its own, too, once "
        f"{of_table} and {of_query} are moved away, both. Or restore all of the pipeline's folder "
        "from a backup of before these dates went, and put the table back before the next run.",
    )


def _has_another_history(table: TableInventory, one: FoundTable, version: int) -> bool:
    """Is this version not the one that gold was published from? Not told where the log has it no
    longer."""
    gold = table.gold.table
    noted = None if gold is None else gold.transaction_version(entry_name(one.name, str(one.id)))
    if noted is None or noted < 0:
        return False
    found = entry_mark(one.place, version)
    return found >= 0 and found != noted


def _notes(one: FoundTable, version: int, kind: type[_Note]) -> Iterator[_Note]:
    """The notes of a kind in a table's commits behind a version, newest first: of a rewind that
    took it back, say."""
    commits = () if one.table is None else commits_after(one.table, version)
    return (note for note in map(note_of, commits) if isinstance(note, kind))


def _accepted(table: TableInventory, one: FoundTable) -> int:
    """Up to which version changes by hand of another pipeline's bronze are accepted here."""
    gold = table.gold.table
    found = None if gold is None else gold.transaction_version(accepted_name(one.name, str(one.id)))
    return -1 if found is None else found


def _query_against_gold(table: TableInventory, query: FoundQuery) -> Iterator[Loss]:
    """A checkpoint beside what gold's transactions say of it."""
    gold = table.gold.table
    if gold is None:
        return
    noted, claim = None if query.id is None else _noted(table, query), "query published from"
    if query.id is None:
        if is_published(gold):
            yield _gone(table, query, f"gold of {table.name} was published ({table.gold.uri})")
    elif noted is None and _is_identified(table):
        yield _loss(table, query, claim, _Verdict.ANOTHER)
    elif noted is not None and noted > query.at:
        yield _loss(table, query, claim, _Verdict.BEHIND, to=noted)


def _ahead_of_checkpoint(
    table: TableInventory, one: FoundTable, query: FoundQuery
) -> Iterator[Loss]:
    """A table with a batch that its checkpoint has not planned: the checkpoint is older."""
    if one.table is None or query.id is None:
        return
    held = one.table.transaction_version(query.id)
    if held is not None and held > query.planned:
        at = query.planned
        yield _loss(table, query, "batch held", _Verdict.BEHIND, at=at, to=held, holder=one.uri)


def _batches_of_ingest(
    table: TableInventory, bronze: DeltaTable, rejects: DeltaTable
) -> Iterator[Loss]:
    """Each batch since the last publish has left what it counted in both tables."""
    lacking = list(_lacking_batches(table, bronze, rejects))
    # Maintenance of a former version took entries of rejects that no publish had noted yet.
    if lacking and all(_log_is_whole(table, one) for one in (table.bronze, table.rejects)):
        yield from lacking


def _lacking_batches(
    table: TableInventory, bronze: DeltaTable, rejects: DeltaTable
) -> Iterator[Loss]:
    ingest = table.ingest
    if ingest.id is None:
        return
    noted = _noted(table, ingest) if _is_identified(table) else None
    after = ingest.at - 1 if noted is None else noted
    if ingest.planned <= after:
        return
    in_bronze = ingest_commits(bronze, ingest.id, after)
    in_rejects = ingest_commits(rejects, ingest.id, after)
    for batch in range(max(after, -1) + 1, ingest.planned + 1):
        # One that was killed may lack what comes last: the rejects, which follow bronze.
        is_done = batch <= ingest.at
        commit = in_bronze.get(batch) or in_rejects.get(batch)
        if commit is None:
            # A version that noted nothing left nothing of a batch without rows either.
            if is_done and noted is not None:
                yield _lacks_batch(table, table.bronze, ingest, batch)
            continue
        if commit.rows.accepted and batch not in in_bronze:
            yield _lacks_batch(table, table.bronze, ingest, batch)
        has_rejects = sum(commit.rows.rejected.values()) > 0
        if is_done and has_rejects and batch not in in_rejects:
            yield _lacks_batch(table, table.rejects, ingest, batch)


def _log_is_whole(table: TableInventory, one: FoundTable) -> bool:
    """Does the log have all that was committed since the last publish?"""
    noted = _noted(table, one)
    return noted is None or (one.table is not None and reaches_back(one.table, noted + 1))


def _batches_of_query(table: TableInventory, changes: DeltaTable) -> Iterator[Loss]:
    """The last committed batch that has appended is in `changes`."""
    query = table.query
    if query.id is None or query.at < 0:
        return
    noted = _noted(table, query) if _is_identified(table) else None
    # A version that noted nothing appended nothing where no row was emitted without input.
    if noted is None and table.operator.traits.emits_without_input:
        return
    appended = changes.transaction_version(query.id)
    kept = set(query.checkpoint.batches("offsets"))
    for batch in range(query.at, -1 if noted is None else noted, -1):
        if appended is not None and appended >= batch:
            return
        if batch and batch - 1 not in kept:
            return
        if query.checkpoint.is_repartition(batch):
            continue
        if query.checkpoint.has_new_input(batch) or table.operator.traits.emits_without_input:
            yield _lacks_batch(table, table.changes, query, batch)
            return


def _lacks_batch(table: TableInventory, one: FoundTable, query: FoundQuery, batch: int) -> Loss:
    known = "has committed" if batch <= query.at else "has planned, and whose rejects are there"
    behind = _Verdict.BEHIND
    return _loss(table, one, "batch committed", behind, to=batch, holder=query.uri, known=known)


def _against_offsets(table: TableInventory) -> Iterator[Loss]:
    """Bronze beside what the table's query has read of it."""
    bronze, query, claim = table.bronze, table.query, "bronze read"
    if bronze.table is None or query.planned < 0:
        return
    read = _read_to(query.checkpoint, query.planned)
    if read is None:
        return
    if read.table_id != bronze.id:
        yield _loss(table, bronze, claim, _Verdict.ANOTHER, read_id=read.table_id)
    elif read.version - 1 > bronze.at:
        yield _loss(table, bronze, claim, _Verdict.BEHIND, to=read.version - 1)


def _of_others(table: TableInventory) -> Iterator[Loss]:
    """What the query reads of other pipelines, beside gold and what it has read of it."""
    query, claim = table.query, "other read"
    for other in table.others:
        if other.table is None:
            if query.planned >= 0:
                yield _gone(table, other, f"the query of {table.name} has read it ({query.uri})")
            continue
        yield from _against_gold(table, other)
        if query.planned < 0:
            continue
        read = query.checkpoint.delta_versions(query.planned)
        if read and other.id not in read:
            yield _loss(table, other, claim, _Verdict.ANOTHER)
        elif (end := read.get(str(other.id), 0)) - 1 > other.at:
            yield _loss(table, other, claim, _Verdict.BEHIND, to=end - 1)


def _of_clocks(table: TableInventory) -> Iterator[Loss]:
    """The clock rows of a join belong to its query's checkpoint, which has read them."""
    query = table.query
    if not table.others or query.planned < 0:
        return
    read = query.checkpoint.delta_versions(query.planned)
    for side in SIDES:
        place = table.warehouse.clock(table.name, table.generation, side)
        clock = FoundTable(f"clock/{side}", place, place.open())
        if clock.table is None:
            yield _gone(table, clock, f"the query of {table.name} has read it ({query.uri})")
        elif clock.id not in read or read[str(clock.id)] - 1 > clock.at:
            yield _loss(table, clock, "clock read", _Verdict.ANOTHER)


def _gold_by_hand(table: TableInventory) -> Iterator[Loss]:
    gold = table.gold
    if gold.table is None or (is_published(gold.table) and not _is_identified(table)):
        return
    by_hand = commits_by_hand(gold.table, gold.place, last_publish(gold.table))
    if by_hand:
        yield _by_hand(table, gold, by_hand, "only publishes write to it")


def _gold_is_another(table: TableInventory) -> bool:
    """Gold that says what it rests on, and knows nothing of what is here, is not of this table."""
    there = [one for one in table.supports if one.id is not None]
    if not there or not _is_identified(table):
        return False
    return all(_noted(table, one) is None for one in there)


def _another_gold(table: TableInventory) -> Loss:
    gold = table.gold
    return Loss(
        gold.name,
        gold.uri,
        f"{gold.uri} was published from other tables and queries than those of {table.name} "
        f"({table.changes.uri}).",
        "Lost at most: the former gold, whose values `changes` still has.",
        f"Move {gold.uri} away, and keep it: {_made_again(table)}. Or restore it from a backup.",
    )


def _against_pins(table: TableInventory, pinned: TableResult | None) -> Iterator[Loss]:
    """What is there beside what a held run found; of another generation its pins say nothing."""
    if pinned is None or pinned.generation != table.generation:
        return
    for one in table.supports:
        pin = pinned.rests_on.get(one.name)
        if pin is None or (one.id == pin.id and one.at >= pin.at):
            continue
        found = "is not there" if one.id is None else f"has the id {one.id} and is at {one.at}"
        behind = _Verdict.BEHIND
        yield _loss(table, one, "pinned", behind, to=pin.at, found=found, pinned_id=pin.id)


def _noted(table: TableInventory, one: FoundTable | FoundQuery) -> int | None:
    """How far gold says that it came; None where gold does not know one of this identity."""
    gold = table.gold.table
    return None if gold is None else gold.transaction_version(noted_name(one.name, str(one.id)))


def _is_identified(table: TableInventory) -> bool:
    """Does gold say what it rests on? Not where it was last published by a version that did not."""
    gold = table.gold.table
    if gold is None or gold.transaction_version(IDENTITIES) is None:
        return False
    noted = _noted(table, table.changes)
    return noted is None or noted == gold.transaction_version(CHANGES)


def _read_to(checkpoint: Checkpoint, batch: int) -> DeltaOffset | None:
    sources = checkpoint.offsets(batch).sources
    offset = source_offset(sources[0]) if sources and sources[0] else None
    return offset if isinstance(offset, DeltaOffset) else None


def _by_hand(table: TableInventory, one: FoundTable, commits: list[HandCommit], since: str) -> Loss:
    shown = ", ".join(str(commit) for commit in commits[:_MOST_SHOWN])
    more = f" and {len(commits) - _MOST_SHOWN} more" if len(commits) > _MOST_SHOWN else ""
    return Loss(
        one.name,
        one.uri,
        f"{one.uri} was changed by something else than Tidemark, and {since}: {shown}{more}.",
        "Wrong at most: what gold shows of the rows that this changed: the stream passes "
        "over such commits.",
        _way_out_of_a_change(table, one),
        tuple(commits),
    )


def _way_out(table: TableInventory, one: FoundTable | FoundQuery) -> str:
    if one.name in (CHANGES, QUERY):
        return (
            f"Restore {one.uri} as it was, or all of {table.name} (`changes`, gold and its "
            "checkpoint) from one backup. Where there is none, bronze still has the rows: "
            f"`tidemark migrate {table.pipeline} --rebuild {table.name}` computes gold from them, "
            "and begins a new query and a new history."
        )
    if isinstance(one, FoundTable) and one.name.startswith("clock/"):
        return (
            f"Restore {one.uri} together with {table.query.uri}, from one backup. Where there is "
            f"none: `tidemark migrate {table.pipeline} --rebuild {table.name}` begins a new query."
        )
    if one in table.others:
        return (
            f"Restore {one.uri} as it was. Where there is no backup, and the other pipeline has "
            f"begun anew: `tidemark migrate {table.pipeline} --rebuild {table.name}` computes gold "
            "from what both bronzes hold by now."
        )
    return (
        f"Restore {one.uri} as it was, or all of the pipeline's folder from one backup. Where "
        "there is none: move the pipeline's folder away, and it begins with its source again, as "
        "far as that still has its rows."
    )


def _way_out_of_a_change(table: TableInventory, one: FoundTable) -> str:
    rebuild = f"`tidemark migrate {table.pipeline} --rebuild {table.name}`"
    if one in table.others:
        other = other_pipeline(one.name)
        if not _is_published(table):
            return (
                f"Was it a mistake? Then put {one.uri} back from a backup. Was it meant? Then "
                f'`tidemark accept {other} --reason "…"` for that pipeline, and {rebuild}, which '
                "computes gold from what both bronzes hold by now."
            )
        return (
            f"Was it a mistake? Then put {one.uri} back from a backup. Was it meant? Then "
            f'`tidemark accept {other} --reason "…"` for that pipeline, the same for '
            f"{table.pipeline}, and audit both: a backfill mends the windows that are closed."
        )
    if one.place == table.gold.place:
        undo = f"move {one.uri} away, and keep it: {_made_again(table)}"
    else:
        undo = f"put {one.uri} back from a backup"
        if one in (table.bronze, table.changes) and not _is_published(table):
            return (
                f"Was it a mistake? Then {undo}. Was it meant? Then `tidemark accept "
                f'{table.pipeline} --reason "…"`, and before the next run {rebuild}, which '
                "computes gold from what bronze holds by now: the query still counts what it has "
                "read. Do so with each table that has no published gold."
            )
    return (
        f"Was it a mistake? Then {undo}. Was it meant? Then `tidemark accept {table.pipeline} "
        '--reason "…"`, and audit the pipeline: a backfill mends the windows that are closed.'
    )
