"""A pipeline's ledger for people: totals by kind and table, the newest lines, and the verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import removed_name
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import answers, duckdb_in_utc

_TOTALS = ("table", "kind", "lines", "account")
# The columns whose sums over batches say something.
_SUMS = (
    *("set_aside", "windows", "published"),
    *("without_record", "rejected_parts"),
    *("other_records", "without_elements", "exploded", "elements", "not_counted"),
    "without_match",
)
_OF_EACH_LINE = ("read", "accepted", "rejected", "assigned", "late_assigned", "offsets")
# Columns that came to the ledger later.
_LATER = (
    *("set_aside", "offsets", "without_record", "rejected_parts"),
    *("other_records", "without_elements", "exploded", "elements", "not_counted"),
    "without_match",
)
_LINE = ("run", "table", "kind", "batch", "account", "difference")

_NAME = r"{(\w+)}"

Row = tuple[Any, ...]


@dataclass(frozen=True)
class LedgerReport:
    """Totals and the newest lines, ready for a table. `unbalanced` counts lines of all time."""

    verdict: str
    unbalanced: int
    totals_header: tuple[str, ...]
    totals: tuple[Row, ...]
    lines_header: tuple[str, ...]
    lines: tuple[Row, ...]


def read_ledger(ledger: TablePlace, pipeline: str, last: int) -> LedgerReport | None:
    """The report of one pipeline; None where the ledger has no line of it."""
    table = ledger.open()
    if table is None:
        return None
    predicate = f"pipeline = '{pipeline}'"
    with duckdb_in_utc() as connection:
        connection.register("ledger", dataset_of(table, predicate))
        connection.execute(f"CREATE TEMP TABLE lines AS SELECT * FROM ledger WHERE {predicate}")
        # A ledger that no run of this version has written yet lacks them.
        for name in _LATER:
            connection.execute(f'ALTER TABLE lines ADD COLUMN IF NOT EXISTS "{name}" BIGINT')
        connection.execute("ALTER TABLE lines ADD COLUMN IF NOT EXISTS counted VARCHAR")
        connection.execute("ALTER TABLE lines ADD COLUMN IF NOT EXISTS rewound VARCHAR")
        connection.execute("ALTER TABLE lines ADD COLUMN IF NOT EXISTS written_at TIMESTAMPTZ")
        ((count, checked, wrong, gone),) = connection.execute(_VERDICT).fetchall()
        totals = tuple(connection.execute(_totals()).fetchall())
        newest = tuple(connection.execute(_newest(), [last]).fetchall())
    removed = table.transaction_version(removed_name(pipeline)) or 0
    if not count and not gone and not removed:
        return None
    verdict = f"{count:,} lines, {checked:,} with an equation, {wrong:,} that do not balance"
    if gone:
        verdict += f"; {gone:,} more of what a rewind has undone, which count in no total"
    if removed:
        verdict += (
            f". The totals are partial: maintenance removed {removed:,} older lines, and `tidemark "
            f"ledger rebuild {pipeline}` makes those anew that the tables still tell"
        )
    return LedgerReport(verdict, wrong, _TOTALS, totals, _LINE, newest)


@dataclass(frozen=True)
class RejectedOfRun:
    """Rows of a run that were rejected for a reason. Of lines that were rebuilt nobody knows the
    run, nor the time that it stood for (UTC)."""

    run: str | None
    scheduled_at: datetime | None
    reason: str
    rows: int


def rejected_rows(ledger: DeltaTable, pipeline: str) -> tuple[RejectedOfRun, ...]:
    """A pipeline's rejected rows by run and reason, the newest run first; what a rewind has undone
    counts no more."""
    predicate = f"pipeline = '{pipeline}'"
    known = dataset_of(ledger, predicate)
    counts = " AND rewound IS NULL" if "rewound" in known.schema.names else ""
    sql = f"""
        SELECT run, scheduled_at, one.key, sum(one.value::BIGINT)::BIGINT
        FROM ledger, json_each(ledger.reasons) AS one
        WHERE {predicate} AND kind = 'ingest'{counts}
        GROUP BY ALL ORDER BY scheduled_at DESC NULLS LAST, run DESC, 4 DESC, 3
    """
    return tuple(RejectedOfRun(*row) for row in answers(sql, ledger=known))


_VERDICT = """
    SELECT count(*) FILTER (rewound IS NULL), count(balanced) FILTER (rewound IS NULL),
        count(*) FILTER (NOT balanced AND rewound IS NULL), count(rewound)
    FROM lines
"""


def _totals() -> str:
    sums = ", ".join(f'sum("{name}")::BIGINT AS "{name}"' for name in _SUMS)
    # Only where each line tells them is their sum that of all lines.
    sums += "".join(
        f', CASE WHEN count("{name}") = count(*) THEN sum("{name}")::BIGINT END AS "{name}"'
        for name in _OF_EACH_LINE
    )
    return f"""
        SELECT "table", kind, lines, CASE
            WHEN kind = 'ingest' THEN {_INGEST} || {_COUNTED.format(_OF_ALL)}
            WHEN kind = 'stream' THEN {_STREAM} || {_ASIDE}
            WHEN kind IN ('retract', 'unretract', 'replay', 'erase') THEN {_MOVED}
            ELSE {_words("{windows} windows, {published} rows")} END
        FROM (
            SELECT kind, "table", count(*) AS lines, {sums}
            FROM lines WHERE rewound IS NULL GROUP BY ALL)
        ORDER BY "table" NULLS FIRST, kind
    """


def _newest() -> str:
    """Each line's equation in words; a number that is not known any more is a question mark."""
    emitted = (
        "{assigned} assigned, {late_assigned} late; {emitted} emitted, {emitted_before} before"
    )
    return f"""
        SELECT run, "table", kind, batch, CASE
            WHEN kind = 'ingest' THEN {_INGEST} || {_COUNTED.format("counted")}
            WHEN kind IN ('retract', 'unretract', 'replay', 'erase') THEN {_MOVED}
            WHEN kind <> 'stream'
            THEN {_words("{windows} windows, {published} rows = {in_bronze} in bronze")}
            WHEN emitted IS NULL THEN {_STREAM} || {_ASIDE}
            ELSE {_words(emitted)} || {_ASIDE} END
            || CASE WHEN rewound IS NULL THEN '' ELSE '; undone by a rewind' END, difference
        FROM lines
        ORDER BY written_at DESC NULLS LAST, scheduled_at DESC NULLS LAST, run DESC,
            "table" NULLS FIRST, kind, batch DESC LIMIT ?
    """


def _words(text: str) -> str:
    """SQL for a text with columns' names in braces."""
    names = re.findall(_NAME, text)
    values = "".join(f", coalesce(format('{{:,}}', \"{name}\"), '?')" for name in names)
    return f"format('{re.sub(_NAME, '{}', text)}'{values})"


_LOST = f"CASE WHEN rejected_parts > 0 THEN {_words(' + {rejected_parts} lost')} ELSE '' END"
_AT_OFFSETS = _words("{offsets} offsets - {without_record} without a record")
_OFFSETS = f"CASE WHEN offsets IS NULL THEN '' ELSE {_AT_OFFSETS} || {_LOST} || ' = ' END"
_OTHERS = _words(" - {other_records} of other pipelines")
_ARRAYS = _words(
    " - {without_elements} without elements - {exploded} exploded + {elements} elements"
)
_UNJUDGED = (
    f"CASE WHEN other_records > 0 THEN {_OTHERS} ELSE '' END || "
    f"CASE WHEN without_elements > 0 OR exploded > 0 THEN {_ARRAYS} ELSE '' END"
)
_JUDGED = _words(" = {accepted} accepted + {rejected} rejected")
_INGEST = f"{_OFFSETS} || {_words('{read} read')} || {_UNJUDGED} || {_JUDGED}"
_MOVED = f"""CASE WHEN kind = 'retract'
    THEN {_words("{published} rows taken out of bronze, to `retracted`")}
    WHEN kind = 'replay' THEN {_words("{published} rejects replayed, to bronze")}
    WHEN kind = 'erase' THEN {_words("{published} rows of bronze erased")}
    ELSE {_words("{published} rows brought back to bronze")} END"""
# By the rules that count accepted rows, as JSON.
_COUNTED = "coalesce('; counted ' || {}, '')"
_OF_ALL = """(
    SELECT json_group_object(rule, number) FROM (
        SELECT one.key AS rule, sum(one.value::BIGINT)::BIGINT AS number
        FROM lines, json_each(lines.counted) AS one WHERE rewound IS NULL GROUP BY ALL ORDER BY ALL)
    HAVING count(*) > 0)"""
_ASIDE = (
    f"CASE WHEN set_aside > 0 THEN {_words('; {set_aside} set aside')} ELSE '' END || "
    f"CASE WHEN not_counted > 0 THEN {_words('; {not_counted} rows do not count')} ELSE '' END || "
    f"CASE WHEN without_match > 0 THEN {_words('; {without_match} rows find none in a lookup')} "
    "ELSE '' END"
)
_STREAM = _words("{assigned} assigned, {late_assigned} late")
