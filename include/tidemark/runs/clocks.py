"""Clock rows: by them each run tells the engine how far both sides of a join are.

The engine keeps one watermark between runs, and forgets those of the sides: after a start it moves
only once *each* side has brought rows, to the least of (newest of these - delay), so that a side
that is silent stops all, and a kill changes what comes out. So each run appends one row to the
clock table of each side before its query starts, whose time is the newest of that side's bronze. It
goes through the side's watermark and is dropped behind it (`streaming/inputs.py`). So the watermark
is the least over both sides of (bronze's newest event time - delay): a function of bronze alone.

Rows that come between the clock's computation and the start are in the batch themselves. A batch
that is repeated repeats its clock rows, which are in its offsets; a clock row too many says nothing
new. An idle side that was sealed has its clock at the seal's frontier plus its delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.commit_point import commit_point
from tidemark.errors import EngineChanged
from tidemark.operators.kinds import operator_of
from tidemark.operators.other_inputs import other_pipeline, other_places
from tidemark.pipeline.instants import instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse

# Both are read as streams, so all columns are nullable; `nothing` always is null (a null that is
# written out in the query lets the optimizer drop rows of the other side).
_SCHEMA = """
{"type": "struct", "fields": [
  {"name": "clock", "type": "timestamp", "nullable": true, "metadata": {}},
  {"name": "run", "type": "string", "nullable": true, "metadata": {}},
  {"name": "nothing", "type": "string", "nullable": true, "metadata": {}}
]}
"""
# So many runs leave their clock rows lying: each is a small file.
_OFTEN = 100
# In the order of a join's inputs.
SIDES = ("left", "right")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Clock:
    """One side of a join: its bronze, where its clock rows lie, and its watermark's delay."""

    name: str
    place: TablePlace
    bronze: TablePlace
    event_time: str
    delay: timedelta

    @property
    def observed(self) -> str:
        """What the query calls the number of clock rows that have passed this side's watermark."""
        return f"clock_{self.name}"


def clocks_of(
    pipeline: Pipeline, warehouse: Warehouse, table: str, generation: int
) -> tuple[Clock, ...]:
    """Those of a join's sides, in the order of its inputs; none of another kind's table."""
    others = other_places(operator_of(pipeline, table), warehouse)
    if not others:
        return ()
    bronzes = [(warehouse.bronze, pipeline.source, pipeline.watermark)]
    for name, place in others.items():
        partner = pipeline.partner(other_pipeline(name))
        bronzes.append((place, partner.source, partner.watermark))
    return tuple(
        Clock(
            side,
            warehouse.clock(table, generation, side),
            place,
            source.event_time.column,
            watermark.delay,
        )
        for side, (place, source, watermark) in zip(SIDES, bronzes, strict=True)
    )


def watermark_due_ms(clocks: tuple[Clock, ...]) -> int:
    """Where the watermark is at least once a run has read all that is there; 0: nowhere yet."""
    newest = (newest_event_us(one.bronze.existing(), one.event_time) for one in clocks)
    ticks = (Tick(one, at_us) for one, at_us in zip(clocks, newest, strict=True))
    return min((one.watermark_ms for one in ticks), default=0)


@dataclass(frozen=True)
class Tick:
    """A clock row: its time in microseconds since 1970, UTC; None where the side has no row."""

    clock: Clock
    at_us: int | None

    @property
    def watermark_ms(self) -> int:
        """Where the side's watermark is at least, once the engine has seen the row."""
        if self.at_us is None:
            return 0
        return max(self.at_us // 1_000 - self.clock.delay // _MILLISECOND, 0)


def tick(clock: Clock, closed_ms: int, run_id: str) -> Tick:
    """Append one clock row for a run; `closed_ms` is gold's close frontier. To repeat it adds a row
    that says the same, or more."""
    table = ensure_table(clock.place, TableSpec(_SCHEMA, description="Clock rows of a join's side"))
    newest = newest_event_us(clock.bronze.existing(), clock.event_time)
    at_us = newest
    if newest is not None and closed_ms:
        at_us = max(newest, closed_ms * 1_000 + clock.delay // timedelta(microseconds=1))
    if at_us is not None:
        _append(clock.place, table, at_us, run_id)
    return Tick(clock, at_us)


def remove_old_ticks(ticks: tuple[Tick, ...], run_id: str) -> None:
    """Remove the clock rows of former runs where many lie there. Only once the run's own were read:
    what a killed run left unread may be older than a log keeps."""
    for one in ticks:
        place = one.clock.place
        if one.at_us is not None and len(place.existing().file_uris()) >= _OFTEN:
            _remove_old(place, run_id)


@commit_point(
    "clock row",
    after_a_kill="before and after, and between both sides: the next run appends a row to each; "
    "one too many says nothing new",
)
def _append(place: TablePlace, table: DeltaTable, at_us: int, run_id: str) -> None:
    place.fence()
    at = pa.array([_EPOCH + timedelta(microseconds=at_us)], pa.timestamp("us", "UTC"))
    rows = pa.table({"clock": at, "run": [run_id], "nothing": pa.nulls(1, pa.string())})
    append_rows(table, rows.cast(schema_of(table)), "clock rows")


@commit_point(
    "old clock rows removed",
    after_a_kill="before and after: streams pass over it, and what a killed run left unread says "
    "nothing that this run's row does not say",
)
def _remove_old(place: TablePlace, run_id: str) -> None:
    """Rows of former runs, from the newest state of the table; files and log entries that are old
    enough go too."""
    table = place.existing()
    place.fence()
    others = run_id.replace("'", "''")
    table.delete(f"run <> '{others}'")
    table.create_checkpoint()
    table.cleanup_metadata()
    table.vacuum(dry_run=False)


def check_ticks(
    ticks: tuple[Tick, ...], observed: dict[str, int], watermark_ms: int, query: str
) -> None:
    """EngineChanged where a clock row did not arrive at its watermark: what closes would depend on
    what each run happens to read.

    `observed` is what the query has counted, by `Clock.observed`; `watermark_ms` what it left.
    """
    lost = [
        tick.clock.name for tick in ticks if tick.at_us and not observed.get(tick.clock.observed)
    ]
    due = min((tick.watermark_ms for tick in ticks), default=0)
    if not lost and watermark_ms >= due:
        return
    what = f"the clock rows of {' and '.join(lost)} did not arrive" if lost else "both arrived"
    raise EngineChanged(
        f"The watermark of {query} is {instant_text(watermark_ms)}, and has to be at "
        f"{instant_text(due)} at least: {what}. Nothing was published. Spark's optimizer handles "
        "the query otherwise than it did when this was built: which version of Spark, and which "
        "settings of its optimizer, does this session have?"
    )
