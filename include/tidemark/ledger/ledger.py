"""The ledger: where each row went, in lines that have to balance.

A line stands for one batch, or for one computation from bronze. Each kind has its equation:
- `ingest`: read at the source = appended to bronze + appended to rejects. Where the pipeline takes
  some records only, or an array of theirs apart: read - of other pipelines - without elements -
  exploded + elements = the same. Of a source with offsets, read = offsets - those without a
  record + ranges that were rejected as a whole;
- `stream`, update mode: `rows` of the emitted windows less what they were before = assigned -
  late - set aside (`gold/failing.py`); complete mode: `rows` of all windows less those of the batch
  before = assigned - set aside; in append mode a window comes out batches later, so its lines count
  but have no equation;
- `late`, `open`, `lookup`, `closed`, `seal`, `backfill`, `migration`: `rows` of the recomputed
  windows = the assignments that bronze holds of them. Where the stream emits nothing, its lines
  count but have no equation;
- `retract`, and `unretract` the other way: rows that are in `retracted`, or were, = rows that
  bronze lost. What a batch appended to bronze is still there, or is in `retracted`, or was erased;
- `erase`: rows that were to be erased = rows that bronze lost;
- `replay`: rejects that went to `replayed` = rows that bronze got for them. The batch that rejected
  them keeps its line.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tidemark.commit_point import commit_point
from tidemark.errors import LedgerUnbalanced
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import (
    COUNT,
    TEXT,
    TIME,
    WRITTEN_AT,
    append_once,
    ensure_ops_table,
    ops_columns,
    ops_rows,
    removed_name,
)
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.delta.place import TablePlace

INGEST, STREAM = "ingest", "stream"
RETRACT, UNRETRACT, REPLAY, ERASE = "retract", "unretract", "replay", "erase"
REWOUND = "rewound"

SCHEMA = pa.schema(
    [
        *ops_columns(TEXT, "pipeline", "table", "kind", "query"),
        *ops_columns(COUNT, "batch"),
        *ops_columns(TEXT, "run"),
        *ops_columns(TIME, "scheduled_at"),
        *ops_columns(COUNT, "read", "accepted", "rejected"),
        *ops_columns(TEXT, "reasons"),
        *ops_columns(COUNT, "assigned", "late_rows", "partly_late_rows", "late_assigned"),
        *ops_columns(COUNT, "late_windows", "frozen_assigned", "emitted", "emitted_before"),
        *ops_columns(COUNT, "windows", "published", "in_bronze", "difference"),
        pa.field("balanced", pa.bool_()),
        *ops_columns(COUNT, "set_aside", "offsets", "without_record", "rejected_parts"),
        *ops_columns(COUNT, "other_records", "without_elements", "exploded", "elements"),
        *ops_columns(TEXT, "counted"),
        *ops_columns(COUNT, "not_counted", "without_match"),
        # The rewind since which the line counts no more: it is undone, or told anew.
        *ops_columns(TEXT, REWOUND),
        # By its writer's clock; null in lines of a version that did not note it.
        *ops_columns(TIME, WRITTEN_AT),
    ]
)
DESCRIPTION = "Where each row went, batch by batch"


@dataclass(frozen=True)
class LedgerLine:
    """One line. What does not belong to its kind is None.

    `source` says what the line stands for, `position` which of them (a batch, or what a computation
    rests on): together they keep it from being written twice.
    `expects_late` is false where late assignments are in what the query emits (complete mode).
    `waits`: a computation whose rows wait in `changes` for their publish.
    """

    kind: str
    source: str
    position: int
    table: str | None = None
    batch: int | None = None
    read: int | None = None
    accepted: int | None = None
    rejected: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    assigned: int | None = None
    late_rows: int | None = None
    partly_late_rows: int | None = None
    late_assigned: int | None = None
    late_windows: int | None = None
    frozen_assigned: int | None = None
    emitted: int | None = None
    emitted_before: int | None = None
    windows: int | None = None
    published: int | None = None
    in_bronze: int | None = None
    set_aside: int | None = None
    offsets: int | None = None
    without_record: int | None = None
    rejected_parts: int | None = None
    other_records: int | None = None
    without_elements: int | None = None
    exploded: int | None = None
    elements: int | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    not_counted: int | None = None
    without_match: int | None = None
    expects_late: bool = True
    waits: bool = False

    @property
    def difference(self) -> int | None:
        """What is missing (above 0) or too much (below 0); None where there is no equation."""
        if self.kind == INGEST:
            return self._ingest_difference()
        if self.kind == STREAM:
            return self._stream_difference()
        if self.in_bronze is None:
            return None
        return self.in_bronze - (self.published or 0)

    def _ingest_difference(self) -> int | None:
        if self.read is None:
            return None
        unjudged = (self.other_records, self.without_elements, self.exploded)
        judged = self.read - sum(number or 0 for number in unjudged) + (self.elements or 0)
        difference = judged - (self.accepted or 0) - (self.rejected or 0)
        if difference or self.offsets is None:
            return difference
        expected = self.offsets - (self.without_record or 0) + (self.rejected_parts or 0)
        return expected - self.read

    def _stream_difference(self) -> int | None:
        if self.emitted is None or self.assigned is None:
            return None
        late = (self.late_assigned or 0) if self.expects_late else 0
        expected = self.assigned - late - (self.set_aside or 0)
        return expected - (self.emitted - (self.emitted_before or 0))


# The numbers that stand on one side or the other of an equation, in the order of the columns.
_COUNTS = tuple(
    name
    for name in SCHEMA.names
    if pa.types.is_int64(SCHEMA.field(name).type) and name not in ("batch", "difference")
)
_SHOWN = 5


# In which state things are where a run's line does not balance, and what to do.
UNPUBLISHED = (
    "Nothing was published, and nothing is until this is mended; what was appended stays. Compare "
    "the tables with the source and with each other (`tidemark audit`), mend what is wrong, then "
    "build the account anew: `tidemark ledger rebuild {pipeline}`."
)


def check_balance(pipeline: str, lines: Iterable[LedgerLine], advice: str) -> None:
    """LedgerUnbalanced where a line does not balance; it names the batch and the difference.

    `advice` says in which state things are then, and what to do; `{pipeline}` in it is its name.
    """
    _refuse(pipeline, [_row(line) for line in lines if line.difference], advice)


def check_ledger(ledger: TablePlace, pipeline: str) -> None:
    """LedgerUnbalanced where the ledger holds a line that does not balance.

    Files without one are left out by their statistics, so this does not grow with the ledger.
    """
    table = ledger.open()
    if table is None:
        return
    unbalanced = f"pipeline = '{pipeline}' AND difference <> 0"
    lines = dataset_of(table, unbalanced)
    same = (ds.field("pipeline") == pipeline) & (ds.field("difference") != 0)
    if REWOUND in lines.schema.names:
        same &= ds.field(REWOUND).is_null()
    wrong = lines.to_table(filter=same)
    _refuse(pipeline, wrong.sort_by("batch").to_pylist(), UNPUBLISHED)


def _refuse(pipeline: str, wrong: Sequence[Mapping[str, Any]], advice: str) -> None:
    if not wrong:
        return
    shown = "\n".join(f"  {_summary(row)}" for row in wrong[:_SHOWN])
    more = f"\n  … and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    raise LedgerUnbalanced(
        f"The ledger of {pipeline} does not balance in {len(wrong)} lines:\n{shown}{more}\n"
        + advice.format(pipeline=pipeline)
    )


def _summary(row: Mapping[str, Any]) -> str:
    """A line for people, with its difference."""
    place = f"{row['table']}, " if row["table"] else ""
    computed = "recomputed windows" if row["table"] else "rows of an act"
    batch = computed if row["batch"] is None else f"batch {row['batch']}"
    counts = ", ".join(f"{name} {row[name]}" for name in _COUNTS if row.get(name) is not None)
    return f"{place}{row['kind']}, {batch}: {counts}; difference {row['difference']}"


def last_batch_written(ledger: DeltaTable | None, pipeline: str, source: str) -> int:
    """The last position of a source that has a line; -1 where none has."""
    written = ledger.transaction_version(f"{pipeline}/{source}") if ledger is not None else None
    return -1 if written is None else written


@commit_point(
    "ledger",
    after_a_kill="before: the next run writes the lines; after: the lines are known by their "
    "batches",
)
def write_ledger(
    ledger: OpsPlace,
    pipeline: str,
    run_id: str,
    scheduled_ms: int,
    lines: Sequence[LedgerLine],
    now: datetime,
) -> None:
    """Append the lines that the ledger lacks, in one commit. A line is never written twice.

    `scheduled_ms` is what the run stands for; a line ages from `now`, in UTC.
    """
    shared = {"pipeline": pipeline, "run": run_id, WRITTEN_AT: now}
    shared |= {"scheduled_at": instant_of(scheduled_ms)}
    rows = [(f"{pipeline}/{line.source}", line.position, shared | _row(line)) for line in lines]
    append_once(ledger, SCHEMA, DESCRIPTION, rows)


@commit_point(
    "ledger rebuilt",
    after_a_kill="before: the ledger is as it was; after: it is the new one, and a repeat writes "
    "it again",
)
def replace_ledger(
    ledger: OpsPlace, pipeline: str, lines: Sequence[LedgerLine], now: datetime
) -> None:
    """Put these lines in the place of all that count of a pipeline, in one commit. What a rewind
    has undone stays: no table tells it any more. What comes after them has lines again, also where
    it had some. `now` is in UTC.

    Which run wrote a line is not known any more. Raises LeaseLost where this process may not write.
    """
    table = ensure_ops_table(ledger, SCHEMA, DESCRIPTION)
    rows = [{"pipeline": pipeline, WRITTEN_AT: now} | _row(line) for line in lines]
    # What was removed before is told again.
    last: dict[str, int] = {removed_name(pipeline): 0}
    own = dataset_of(table, f"pipeline = '{pipeline}'")
    there = own.to_table(["query"], filter=ds.field("pipeline") == pipeline)
    last |= {f"{pipeline}/{source}": -1 for source in there.column("query").unique().to_pylist()}
    for line in lines:
        source = f"{pipeline}/{line.source}"
        # A computation that waits for its publish rests on more than gold tells.
        known = last_batch_written(table, pipeline, line.source) if line.waits else -1
        last[source] = max(line.position, known, last.get(source, -1))
    ledger.fence()
    write_deltalake(
        table,
        ops_rows(table, SCHEMA, rows),
        mode="overwrite",
        predicate=f"pipeline = '{pipeline}' AND {REWOUND} IS NULL",
        commit_properties=CommitProperties(
            app_transactions=[Transaction(source, at) for source, at in last.items()]
        ),
    )


@commit_point(
    "ledger rewound",
    after_a_kill="before: no run starts, and a repetition settles it; after: a repetition finds it "
    "settled",
)
def settle_ledger(
    ledger: OpsPlace,
    pipeline: str,
    lines: Sequence[LedgerLine],
    rewind: str,
    ingest: str,
    kept_to: int,
    now: datetime,
) -> None:
    """After a rewind: exactly these lines count, which the tables tell; in one commit.

    A line that is there with the same numbers is that one, whether it counted or a former rewind
    had undone it. What else counted so far is marked as undone by `rewind`, and stays. The batches
    of the query `ingest` that come again have lines again. Of those up to `kept_to` the rewind has
    undone none: where no note tells any more what one read, the ledger says what it said. `now` is
    in UTC.
    """
    table = ensure_ops_table(ledger, SCHEMA, DESCRIPTION)
    own = f"pipeline = '{pipeline}'"
    there = dataset_of(table, own).to_table(filter=ds.field("pipeline") == pipeline).to_pylist()
    of_ingest = {one.position: one for one in lines if one.source == ingest}
    told = {batch for batch, one in of_ingest.items() if one.read is not None}
    kept = {
        at: line["batch"]
        for at, line in enumerate(there)
        if line["query"] == ingest and line[REWOUND] is None and line["batch"] <= kept_to
    }
    # Beside lines that stay it lacks what it lacked; one that was lost has none.
    passed = {batch for batch in of_ingest if kept and batch <= kept_to and batch not in told}
    counting = [
        {"pipeline": pipeline} | _row(one)
        for one in lines
        if one.source != ingest or one.position not in passed
    ]
    staying = {at for at, batch in kept.items() if batch not in told}
    settled = list(_settled(there, counting, staying, rewind, now))
    last = max([*of_ingest, *kept.values()], default=-1)
    known = table.transaction_version(f"{pipeline}/{ingest}")
    if settled == there and known == last:
        return
    ledger.fence()
    write_deltalake(
        table,
        ops_rows(table, SCHEMA, settled),
        mode="overwrite",
        predicate=own,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(f"{pipeline}/{ingest}", last)]
        ),
    )


def _settled(
    there: Sequence[Mapping[str, Any]],
    counting: Sequence[Mapping[str, Any]],
    staying: Collection[int],
    rewind: str,
    now: datetime,
) -> Iterator[Mapping[str, Any]]:
    """The lines that are there, in their order, and then those that count and are not. `staying`
    are the places of lines that count as they are."""
    left = list(counting)
    # Of equal ones the line that counts already.
    kept = set(staying)
    for at, line in sorted(enumerate(there), key=lambda one: one[1][REWOUND] is not None):
        same = next((one for one in left if _is_same(one, line)), None)
        if same is not None:
            left.remove(same)
            kept.add(at)
    for at, line in enumerate(there):
        marked = None if at in kept else line[REWOUND] or rewind
        yield {**line, REWOUND: marked}
    empty = dict.fromkeys(SCHEMA.names)
    yield from ({**empty, WRITTEN_AT: now, **line} for line in left)


def _is_same(noted: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    """Of what the tables tell; the line may know more. Where they do not tell what a batch of
    ingest came to, it may be that of another life of the batch."""
    is_untold = noted["kind"] == INGEST and None in (noted["accepted"], noted["rejected"])
    told = (name for name, value in noted.items() if is_untold or value is not None)
    return all(line[name] == noted[name] for name in told)


def _row(line: LedgerLine) -> dict[str, Any]:
    values = asdict(line)
    difference = line.difference
    return {
        **{name: values[name] for name in SCHEMA.names if name in values},
        "query": line.source,
        "reasons": None if line.rejected is None else json.dumps(dict(line.reasons)),
        "counted": json.dumps(dict(line.counted)) if line.counted else None,
        "difference": difference,
        "balanced": None if difference is None else difference == 0,
    }
