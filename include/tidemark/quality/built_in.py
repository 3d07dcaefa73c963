"""Checks that need no asking: of what gold would be after the publish, and of the ledger.

They are always `fail`. They look at the partitions of gold that the publish touches; the whole of
gold is the audit's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.errors import LedgerUnbalanced
from tidemark.gold.state import PROVISIONAL
from tidemark.ledger.ledger import check_ledger
from tidemark.pipeline.instants import instant_of
from tidemark.quality.planned_rows import PlannedRows
from tidemark.quality.verdicts import CheckVerdict
from tidemark.storage.delta.place import TablePlace

KEYS_UNIQUE = "each window and key is there once"
NONE_OPEN = "no closed window is provisional"
NO_STEP_BACK = "no revision is lower than before"
LEDGER_BALANCED = "the ledger balances"


def judge_table(rows: PlannedRows) -> Iterator[CheckVerdict]:
    """What publish promises of gold, held to what it would write."""
    after = _after(rows)
    keys = _list(rows.keys)
    looked_at = rows.count(f"SELECT count(*) FROM ({after})")
    closed = f"TIMESTAMPTZ '{instant_of(rows.plan.close_after_ms).isoformat()}'"
    same = " AND ".join(f'w."{key}" IS NOT DISTINCT FROM b."{key}"' for key in rows.keys)
    bad = {
        KEYS_UNIQUE: f"""
            SELECT {keys}, count(*) AS times FROM ({after}) GROUP BY {keys} HAVING count(*) > 1
        """,
        NONE_OPEN: f"""
            SELECT {keys}, window_end FROM ({after})
            WHERE status = '{PROVISIONAL}' AND window_end <= {closed}
        """,
        NO_STEP_BACK: f"""
            SELECT {_list(rows.keys, "w.")}, w.revision, b.revision AS before
            FROM written w JOIN before b ON {same} WHERE w.revision < b.revision AND NOT w._gone
        """,
    }
    for check, sql in bad.items():
        yield rows.judged(check, sql, looked_at, "windows")


def judge_ledger(ledger: TablePlace, pipeline: str) -> CheckVerdict:
    """Each line of the ledger that has an equation fulfils it."""
    message = "each line adds up"
    try:
        check_ledger(ledger, pipeline)
    except LedgerUnbalanced as error:
        message = str(error)
    passed = message == "each line adds up"
    return CheckVerdict(
        table=None, check=LEDGER_BALANCED, severity="fail", passed=passed, observed=message, rows=0
    )


def _after(rows: PlannedRows) -> str:
    """Gold's touched partitions as the publish would leave them."""
    columns = (*rows.keys, "window_end", "status")
    same = " AND ".join(f'b."{key}" IS NOT DISTINCT FROM w."{key}"' for key in rows.keys)
    return f"""
        SELECT {_list(columns)} FROM written WHERE NOT _gone UNION ALL
        SELECT {_list(columns, "b.")} FROM before b ANTI JOIN written w ON {same}
    """


def _list(names: tuple[str, ...], prefix: str = "") -> str:
    return ", ".join(f'{prefix}"{name}"' for name in names)
