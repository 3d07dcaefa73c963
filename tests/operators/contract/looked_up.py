"""Tables that look others up, in plain Python, and what these say: something else with each change.

Who owns a key from which time on is a Delta table, what it is worth a CSV file. What gold calls
their columns are `a`, `b` and null, as the keys of the rows are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tests.kit.late_model import EPOCH
from tidemark.pipeline.model import Lookup, WindowTable

Row = dict[str, Any]
Known = dict[tuple[Any, ...], tuple[Any, ...]]

_MINUTE = timedelta(minutes=1)
# What owners are told from: a day before the rows of the suite begin.
_FIRST = datetime(2026, 6, 30, tzinfo=UTC)
_DAY = 24 * 60
_COUNTING = "amount > 0 and not key <=> 'nobody' and not owners.name <=> 'b'"


@dataclass(frozen=True)
class Said:
    """What the lookups say: by key and minute the owner from then on, and for how many minutes
    where it ends before the next one begins; by key its worth."""

    owners: dict[tuple[str, int], tuple[str | None, int | None]]
    worth: dict[str, tuple[int, str | None]]

    def owner(self, row: Row, ends: bool) -> tuple[str | None] | None:
        """Who owns the key of a row at its time; None: nobody is told."""
        begun = [minute for key, minute in self.owners
                 if key == row["key"] and _at(minute) <= row["at"]]  # fmt: skip
        if not begun:
            return None
        name, minutes = self.owners[row["key"], max(begun)]
        over = ends and minutes is not None and _at(max(begun) + minutes) <= row["at"]
        return None if over else (name,)

    def write(self, root: Path) -> None:
        """Have the sources below a root say it."""
        of_key: defaultdict[str, list[int]] = defaultdict(list)
        for key, minute in sorted(self.owners):
            of_key[key].append(minute)
        rows = []
        for key, minutes in of_key.items():
            for minute, following in pairwise([*minutes, None]):
                assert minute is not None
                name, lasting = self.owners[key, minute]
                ends = [minute + lasting] if lasting else []
                ends += [following] if following else []
                until = _at(min(ends)) if ends else None
                rows.append({"id": key, "name": name, "since": _at(minute), "until": until})
        time = pa.timestamp("us", "UTC")
        text = pa.string()
        schema = pa.schema([("id", text), ("name", text), ("since", time), ("until", time)])
        owners = pa.Table.from_pylist(rows, schema)
        write_deltalake(str(root / "dims/owners"), owners, mode="overwrite")
        lines = [f"{key},{factor},{kind or ''}\n" for key, (factor, kind) in self.worth.items()]
        (root / "dims/worth.csv").write_text("".join(["key,factor,kind\n", *lines]))


def said(changes: int) -> Said:
    """What the lookups say after so many changes, each of a few keys and times."""
    owners: dict[tuple[str, int], tuple[str | None, int | None]] = {
        ("a", 0): ("a", None), ("b", 0): ("b", _DAY + 30), ("b", _DAY + 35): (None, None),
        ("z", 0): ("z", None),
    }  # fmt: skip
    found = Said(owners, {"a": (2, "a"), "z": (1, "z")})
    draw = Random(29)
    for _ in range(changes):
        key = draw.choice("ab")
        told = sorted(of for of in found.owners if of[0] == key)
        if len(told) > 3 and draw.random() < 0.5:
            del found.owners[draw.choice(told)]
        minute = _DAY + draw.randint(-30, 160)
        lasting = draw.choice([None, draw.randint(5, 60)])
        found.owners[key, minute] = draw.choice(["a", "b", None]), lasting
        key = draw.choice("ab")
        if key in found.worth and draw.random() < 0.3:
            del found.worth[key]
        else:
            found.worth[key] = draw.randint(1, 4), draw.choice(["a", "b", None])
    return found


def _at(minute: int) -> datetime:
    return _FIRST + minute * _MINUTE


def lookups(table: WindowTable) -> dict[str, Lookup]:
    """Those of a table's pipeline. In update mode rows without an owner do not count and each owner
    is one up to the next one; in append mode rows without a worth do not, and owners end."""
    append = table.output_mode == "append"
    owners = {
        "table": "dims/owners",
        "on": {"key": "id"},
        "columns": {"name": "string", "since": "timestamp", "until": "timestamp"},
        "as_of": ["since", "until"] if append else "since",
        "on_missing": None if append else "leave_out",
    }
    worth = {
        "file": "dims/worth.csv",
        "on": "key",
        "columns": {"factor": "long", "kind": "string"},
        "on_missing": "leave_out" if append else None,
    }
    return {"owners": Lookup.model_validate(owners), "worth": Lookup.model_validate(worth)}


def looking_up(mode: str, length: int = 10, slide: int = 10) -> WindowTable:
    """A table that names columns of both: a key, a measure, and in append mode what counts."""
    append = mode == "append"
    measures = {"amount": "sum(amount * worth.factor)", "owner": "max(owners.name)"}
    content = {
        "window": {"length": f"{length} minutes", "slide": f"{slide} minutes"},
        "output_mode": mode,
        "stream": "recompute",
        "group_by": ["worth.kind" if append else "owners.name"],
        "measures": {"events": "count(*)", **measures},
    }
    return WindowTable.model_validate({**content, **({"where": _COUNTING} if append else {})})


def looked_up(table: WindowTable, by: Said) -> Callable[[Sequence[Row]], Known]:
    """What a batch over all rows gives while the lookups say this."""
    length, slide = table.window.length, table.window.slide
    append = table.output_mode == "append"

    def model(rows: Sequence[Row]) -> Known:
        within: defaultdict[tuple[datetime, str | None], list[Row]] = defaultdict(list)
        for row in rows:
            if not looks_good(table, by, row):
                continue
            (owner,) = by.owner(row, append) or (None,)
            factor, kind = by.worth.get(row["key"], (None, None))
            amount = None if None in (factor, row["amount"]) else factor * row["amount"]
            beside = {"owner": owner, "amount": amount}
            start = EPOCH + (row["at"] - EPOCH) // slide * slide
            while start + length > row["at"]:
                within[start, kind if append else owner].append(beside)
                start -= slide
        return {
            (start, key): (
                *(start + length, len(held), _added(held)),
                *(max((row["owner"] for row in held if row["owner"]), default=None), len(held)),
            )
            for (start, key), held in within.items()
        }

    return model


def looks_good(table: WindowTable, by: Said, row: Row) -> bool:
    """Does a row count for the table while the lookups say this?"""
    if table.output_mode != "append":
        return by.owner(row, ends=False) is not None
    good = row["amount"] is not None and row["amount"] > 0 and row["key"] != "nobody"
    return good and row["key"] in by.worth and by.owner(row, ends=True) != ("b",)


def _added(rows: Sequence[Row]) -> int | None:
    amounts = [row["amount"] for row in rows if row["amount"] is not None]
    return sum(amounts) if amounts else None
