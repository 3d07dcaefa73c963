"""What a table's stories have to say, worked out another way: by the whole feed of `changes`, by
the landed rows in plain Python, by the files themselves, and by the ledger."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

from tests.operators.contract.joins import sides
from tests.operators.contract.kinds import TABLE, Kind, KindPlace, Row, counts
from tidemark.operators.repaired import NOT_OF_GOLD
from tidemark.pipeline.model import CalendarTable, FoldTable, GappedTable, JoinTable, WindowTable
from tidemark.runs.generations import generations
from tidemark.story.explain import story_of
from tidemark.story.story import BronzeRow, Story, story_document

TICK = timedelta(microseconds=1)
Identity = tuple[Any, ...]


def stories(place: KindPlace) -> dict[Identity, Story]:
    """Of each row of gold, and of each that its histories have."""
    identity = place.kind.operator.identity
    known = {tuple(row[name] for name in identity) for row in place.gold(TABLE).to_pylist()}
    known |= {identity for histories in fed(place).values() for identity in histories}
    found = {}
    for one in known:
        key = dict(zip(identity[1:], one[1:], strict=True))
        found[one] = story_of(place.pipeline, place.settings, TABLE, one[0], key)
        json.dumps(story_document(found[one]), allow_nan=False)
    return found


def fed(place: KindPlace) -> dict[int, dict[Identity, list[Row]]]:
    """By generation, all rows of `changes` that say something of gold, in the order of commits."""
    found: dict[int, dict[Identity, list[Row]]] = {}
    for generation in generations(place.warehouse, TABLE):
        changes = place.warehouse.changes(TABLE, generation).open()
        if changes is None:
            continue
        feed = pa.table(changes.load_cdf(0, changes.version())).to_pylist()
        rows = defaultdict(list)
        for row in sorted(feed, key=lambda row: row["_commit_version"]):
            if row["cause"] not in NOT_OF_GOLD:
                rows[tuple(row[name] for name in place.kind.operator.identity)].append(row)
        found[generation] = rows
    return found


def check_stories(place: KindPlace, rows: Sequence[Row]) -> dict[Identity, Story]:
    """The stories are what they have to be; `rows` are all that landed and count."""
    kind, operator = place.kind, place.kind.operator
    told, feeds = stories(place), fed(place)
    held = {
        tuple(row[name] for name in operator.identity): row for row in place.gold(TABLE).to_pylist()
    }
    assert told
    for identity, story in told.items():
        expected = [
            (generation, row)
            for generation, history in feeds.items()
            for row in history.get(identity, [])
        ]
        # A generation of a rewind has no row of what is gone by it, by what a lookup says now.
        gone = [one for one in story.values if one.version is None]
        assert all((one.cause, one.rows) == ("rewind", 0) for one in gone)
        assert not {one.generation for one in gone} & {generation for generation, _ in expected}
        computed = [one for one in story.values if one.version is not None]
        of_values = [(one.generation, one.version, one.rows, one.run, one.batch)
                     for one in computed]  # fmt: skip
        assert of_values == [
            (of, row["_commit_version"], row["rows"], row["run"], row["batch"])
            for of, row in expected
        ]
        for value, (_, row) in zip(computed, expected, strict=True):
            assert value.in_order
            if value.values:
                assert value.values == {name: row[name] for name in value.values}
                assert {"window_end"} | set(operator.values) - {"rows"} <= value.values.keys()
        check_shown(story, held.get(identity), kind)
        if kind.model_by is None:
            assert Counter(map(place_in_time, shown_of(story))) == Counter(
                place_in_time_of(row) for row in members(kind, identity, story, rows)
            )
        for row in shown_of(story):
            check_line(row)
    check_late(place, told)
    return told


def check_shown(story: Story, held: Mapping[str, Any] | None, kind: Kind) -> None:
    """What gold shows is the last value that was published; the rows of bronze are as many as it
    counts, where it counts them all."""
    identity = {*kind.operator.identity, "window_date"}
    gold = None if held is None else {n: v for n, v in held.items() if n not in identity}
    assert story.gold == gold
    published = [one for one in story.values if one.published and not one.undone]
    assert all(one.published is not None for one in story.values)
    if gold is None:
        assert not published or not published[-1].values
        return
    assert published
    assert {**published[-1].values, "rows": published[-1].rows}.items() <= gold.items()
    if kind.operator.traits.counts_rows and not kind.joins and gold["status"] != "provisional":
        (bronze,) = story.bronze
        assert bronze.number == gold["rows"]


def shown_of(story: Story) -> list[BronzeRow]:
    """The sampled rows of its own bronze; these samples hold all of them."""
    if not story.bronze:
        return []
    bronze = story.bronze[0]
    assert bronze.number == len(bronze.sample)
    assert bronze.late_sample == tuple(row for row in bronze.sample if row.late)
    return list(bronze.sample)


def place_in_time(row: BronzeRow) -> tuple[Any, ...]:
    return row.values["at"], row.values["key"], row.values["amount"]


def place_in_time_of(row: Row) -> tuple[Any, ...]:
    return row["at"], row["key"], row["amount"]


def members(kind: Kind, identity: Identity, story: Story, rows: Sequence[Row]) -> list[Row]:
    """The rows of a row of gold, in plain Python."""
    left, right = sides([row for row in rows if not kind.counts_some or counts(row)])
    start, table = identity[0], kind.table
    own = [row for row in left if row["key"] == identity[1]]
    if isinstance(table, GappedTable):
        last = last_of(own, start, table.gap)
        if last and isinstance(table, FoldTable):
            assert story.window_end is not None
            last = story.window_end
        return [] if last is None else [row for row in own if start <= row["at"] <= last]
    assert isinstance(table, WindowTable | CalendarTable)
    assert story.window_end is not None
    within = [row for row in own if start <= row["at"] < story.window_end]
    if isinstance(table, JoinTable) and table.join.type == "inner":
        low, high = -table.join.within.before, table.join.within.after
        return [
            row
            for row in within
            if any(
                other["key"] == row["key"] and low <= other["at"] - row["at"] <= high
                for other in right
            )
        ]
    return within


def last_of(rows: Sequence[Row], start: datetime, gap: timedelta) -> datetime | None:
    """Of the rows of a key, the last one of those that hang together from a time on; None where
    none begins then."""
    times = sorted(row["at"] for row in rows)
    if start not in times or any(start - gap <= time < start for time in times):
        return None
    last = start
    for time in times:
        if start <= time <= last + gap:
            last = max(last, time)
    return last


def check_line(row: BronzeRow) -> None:
    """The line of the file is that row."""
    assert row.place.line is not None, row.place
    file = Path(unquote(urlparse(row.place.origin["_file"]).path))
    line = json.loads(file.read_text().splitlines()[row.place.line - 1])
    assert datetime.fromisoformat(line["at"]) == row.values["at"]
    assert (line["key"], line["amount"]) == (row.values["key"], row.values["amount"])


def check_late(place: KindPlace, told: Mapping[Identity, Story]) -> None:
    """As many assignments are late as the ledger counted, of each run, in tables of one length
    whose rows are in no other's."""
    if place.kind.joins or isinstance(place.kind.table, FoldTable) or place.kind.looks_up:
        return
    by_run: Counter[str] = Counter()
    for story in told.values():
        for rows in story.bronze:
            assert rows.late == sum(one.late or 0 for one in rows.batches)
            for batch in rows.batches:
                assert batch.run is not None
                by_run[batch.run] += batch.late or 0
    ledger: Counter[str] = Counter()
    lines = place.table(place.places.ledger).to_pylist()
    # A rewind takes back all lines of a table's query, also of runs that still count.
    undone = {line["run"] for line in lines if line["kind"] == "ingest" and line.get("rewound")}
    for line in lines:
        if line["kind"] == "stream" and line["run"] not in undone:
            ledger[line["run"]] += line["late_assigned"] or 0
    assert +by_run == +ledger
