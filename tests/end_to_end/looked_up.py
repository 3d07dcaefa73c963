"""A pipeline whose tables look others up, its random inputs, and what gold has to be by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import Place, clicks, query
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import instant_of

Row = dict[str, Any]

DAY = datetime(2026, 7, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CARRIERS = [f"c{number}" for number in range(12)]
NAMES = ["Ada", "Bob", "Cyd", None]
REGIONS = ["eu", "us"]

LOOKUPS: dict[str, Any] = {
    "airlines": {
        "table": "dims/airlines",
        "on": {"key": "carrier"},
        "columns": {"name": "string", "region": "string", "valid_from": "timestamp"},
        "as_of": "valid_from",
    },
    "rates": {
        "file": "dims/rates.csv",
        "on": "key",
        "columns": {"factor": "long", "kind": "string"},
        "on_missing": "leave_out",
    },
}
TABLES: dict[str, Any] = {
    "named": {
        "window": {"length": "1 hour"},
        "group_by": ["airlines.name"],
        "measures": {"amount": "sum(amount)", "region": "max(airlines.region)"},
    },
    "rated": {
        "window": {"length": "2 hours", "slide": "1 hour"},
        "where": "airlines.region <=> 'eu' and amount > 2",
        "group_by": ["key"],
        "measures": {"weight": "sum(amount * rates.factor)"},
        "output_mode": "append",
    },
    "daily": {
        "window": {"calendar": "day", "zone": "Europe/Vienna"},
        "group_by": ["rates.kind", "airlines.region"],
        "measures": {"amount": "sum(amount)"},
    },
}
# What each table is, over `looked_up`: all of bronze beside what both lookups say of it.
_ORACLES = {
    "named": """
        SELECT time_bucket(INTERVAL 1 HOUR, t) AS s, name, sum(amount)::BIGINT, max(region),
            count(*) FROM looked_up GROUP BY ALL
    """,
    "rated": """
        SELECT s, key, sum(amount * factor)::BIGINT, count(*) FROM (
            SELECT *, time_bucket(INTERVAL 1 HOUR, t) - unnest(range(2)) * INTERVAL 1 HOUR AS s
            FROM looked_up WHERE region = 'eu' AND amount > 2 AND rated
        ) WHERE s + INTERVAL 2 HOUR <= $closed GROUP BY ALL
    """,
    "daily": """
        SELECT date_trunc('day', t AT TIME ZONE 'Europe/Vienna') AT TIME ZONE 'Europe/Vienna' AS s,
            kind, region, sum(amount)::BIGINT, count(*) FROM looked_up WHERE rated GROUP BY ALL
    """,
}
_LOOKED_UP = """
    SELECT f.*, a.name, a.region, r.factor, r.kind, r.key IS NOT NULL AS rated
    FROM facts f
    ASOF LEFT JOIN airlines a ON f.key = a.carrier AND f.t >= a.valid_from
    LEFT JOIN rates r ON f.key = r.key
"""
COLUMNS = {
    "named": ("airlines_name", "amount", "region"),
    "rated": ("key", "weight"),
    "daily": ("rates_kind", "airlines_region", "amount"),
}


@dataclass
class LookingUp(Place):
    """The place, and what its lookups say by now."""

    airlines: list[Row] = field(default_factory=list)
    rates: dict[str, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def at(cls, root: Path, **changes: Any) -> LookingUp:
        return cls(root, clicks(**{"tables": TABLES, "lookup": LOOKUPS, **changes}))

    def write_airlines(self) -> None:
        schema = pa.schema(
            {
                "carrier": pa.string(),
                "name": pa.string(),
                "region": pa.string(),
                "valid_from": pa.timestamp("us", "UTC"),
            }  # type: ignore[arg-type]
        )
        rows = pa.Table.from_pylist(self.airlines, schema)
        write_deltalake(str(self.root / "dims/airlines"), rows, mode="overwrite")

    def write_rates(self) -> None:
        file = self.root / "dims/rates.csv"
        file.parent.mkdir(exist_ok=True)
        lines = [f"{key},{factor},{kind}" for key, (factor, kind) in self.rates.items()]
        file.write_text("\n".join(["key,factor,kind", *lines, ""]))

    def expected(self, table: str) -> list[tuple[Any, ...]]:
        """What gold has to hold: a batch query over all of bronze and the lookups as they are."""
        closed = gold_state(DeltaTable(self.places.gold(table))).close_ms
        rates = [(key, *of) for key, of in self.rates.items()]
        names = ("key", "factor", "kind")
        columns = [list(column) for column in zip(*rates, strict=True)] if rates else [[], [], []]
        schema = [("carrier", pa.string()), ("name", pa.string()), ("region", pa.string())]
        airlines = pa.Table.from_pylist(
            self.airlines, pa.schema([*schema, ("valid_from", pa.timestamp("us", "UTC"))])
        )
        sql = _ORACLES[table].replace("looked_up", f"({_LOOKED_UP})")
        sql = sql.replace("$closed", f"TIMESTAMPTZ '{instant_of(closed).isoformat()}'")
        rows = query(
            sql,
            facts=self.bronze()
            .select(["at", "key", "amount"])
            .rename_columns(["t", "key", "amount"]),
            airlines=airlines,
            rates=pa.table(dict(zip(names, columns, strict=True))),
        )
        return sorted(((_utc(start), *values) for start, *values in rows), key=repr)

    def found(self, table: str) -> list[tuple[Any, ...]]:
        names = ("window_start", *COLUMNS[table], "rows")
        rows = self.gold(table).to_pylist()
        return sorted(
            ((_utc(row["window_start"]), *(row[name] for name in names[1:])) for row in rows),
            key=repr,
        )

    def check(self) -> None:
        for table in self.content["tables"]:
            assert self.found(table) == self.expected(table), table


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)


def landings(random: Random, runs: int, rows: int = 60) -> Iterator[Sequence[Row]]:
    """What lands before each run, on with time; 27 of 100 rows late, by up to two days."""
    now = DAY + 48 * HOUR
    for _ in range(runs):
        now += random.choice([1, 3, 26]) * HOUR
        found = []
        for _ in range(rows):
            back = 48 * HOUR if random.random() < 0.27 else HOUR
            at = now - random.random() * back
            key = random.choice([*CARRIERS, None, "nobody"])
            found.append({"at": at.isoformat(), "key": key, "amount": random.randrange(10)})
        yield found


def change(place: LookingUp, random: Random, since: datetime, until: datetime) -> None:
    """Another content of both lookups: rows of airlines come, of which 20 in 100 hold from long
    before, some are corrected and some go; rates come, change and go."""
    for _ in range(random.randrange(4)):
        late = random.random() < 0.2
        begin = since if late else until - 4 * HOUR
        row = {
            "carrier": random.choice(CARRIERS),
            "name": random.choice(NAMES),
            "region": random.choice(REGIONS),
            "valid_from": begin + random.random() * (until - begin),
        }
        place.airlines.append(row)
    if place.airlines and random.random() < 0.5:
        random.choice(place.airlines)["name"] = random.choice(NAMES)
    if len(place.airlines) > 8 and random.random() < 0.5:
        place.airlines.remove(random.choice(place.airlines))
    for key in random.sample(CARRIERS, random.randrange(3)):
        if key in place.rates and random.random() < 0.3:
            del place.rates[key]
        else:
            place.rates[key] = random.randrange(1, 5), random.choice(["x", "y"])
    place.write_airlines()
    place.write_rates()
