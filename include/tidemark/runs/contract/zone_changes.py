"""Whether a time zone still has the rules by which a table's windows were computed.

No file says them: they are those of the process that starts Spark, and change with its system. Rows
of gold that other rules bound otherwise would stay, and the rows of bronze in them be counted once
more in windows of the new ones. Rules that bound no window of a row of bronze otherwise are no
change: the next run notes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta, timezone

from tidemark.operators.calendars.rules import other_clocks
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.pipeline.model import CalendarTable
from tidemark.runs.contract.contract import Contract, contract_of, read_contract
from tidemark.runs.run import Run
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.generation import generation_in_use

_REASON = (
    "The table holds windows by the zone's former rules, and the same rows would be counted in "
    "windows of both. Other rules came with the system's time zones or the package tzdata: a run "
    "with the former ones goes on"
)


def zone_changes(recorded: Contract, asked: Contract, bronze: TablePlace) -> Iterator[Difference]:
    """What differs in the rules of a table's zone, where rows of bronze are in windows which that
    moves. Another zone is a change of the file, and none of these."""
    query = asked.query
    noted, known = recorded.zone_rules, asked.zone_rules
    if noted is None or known is None or noted == known:
        return
    old, new = recorded.pipeline.tables[query], asked.pipeline.tables[query]
    assert isinstance(old, CalendarTable)
    assert isinstance(new, CalendarTable)
    zone, table = new.window.zone, bronze.open()
    if old.window.zone != zone or table is None:
        return
    dates = sorted(date.fromisoformat(part["_event_date"]) for part in table.partitions())
    for first, last in _adjacent(dates):
        if found := other_clocks(new.window, noted, known, first, last):
            what = f"the clocks of {zone} at {instant_text(epoch_ms(found.start))}"
            texts = _text(found.noted), _text(found.known)
            yield Difference(query, what, *texts, ChangeVerdict.NEW_GENERATION, _REASON)
            return


def _adjacent(dates: Iterable[date]) -> Iterator[tuple[date, date]]:
    """The first and the last of each run of dates without a gap: a row may lie years apart."""
    first = last = None
    for day in dates:
        if last is not None and first is not None and day - last > timedelta(days=1):
            yield first, last
            first = day
        first, last = first or day, day
    if first is not None and last is not None:
        yield first, last


def why_zones_differ(run: Run) -> str | None:
    """Which zone has other rules here than those that bounded a table's windows. Whether the run
    may go on, its job tells: the rules there count."""
    for name, table in run.pipeline.tables.items():
        if not isinstance(table, CalendarTable):
            continue
        place = run.places.contract(name, generation_in_use(run.warehouse, name))
        recorded = read_contract(place, run.settings.storage_options)
        if recorded is None:
            continue
        asked = contract_of(run.pipeline, name, run.settings)
        for found in zone_changes(recorded, asked, run.warehouse.bronze):
            return f"{name}: {found.what}: {found.before} → {found.after}"
    return None


def _text(ahead: timedelta) -> str:
    return str(timezone(ahead))
