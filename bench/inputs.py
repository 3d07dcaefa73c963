"""The input of all contenders: JSON lines of events, the same for the same arguments.

An event has a time, a key and an amount. Times go forward with the row's number, a million rows
a day (some fourteen to each window of ten minutes and key), mildly out of order: by at most five
minutes, which is less than the watermark's delay, so that no row is late. One row in 200 has no
key, and is left out of every gold.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb

ROWS_A_DAY = 1_000_000
KEYS = 500
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
# A file as an exporter would close it: large enough to read well, small enough to share out.
_ROWS_A_FILE = 250_000


def write_events(
    folder: Path, first: int, rows: int, keys: int = KEYS, every: int = 1
) -> list[Path]:
    """Write rows number `first` and following, as files named after their first row; of these,
    those whose number is a multiple of `every`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for start in range(first, first + rows, _ROWS_A_FILE):
        file = folder / f"events-{start:012}.json"
        # Complete under its own name in one step, as a source that is watched needs it.
        aside = folder / f".{file.name}"
        with duckdb.connect() as connection:
            end = min(start + _ROWS_A_FILE, first + rows)
            connection.execute(
                f"COPY ({_events(start, end, keys, every)}) TO '{aside}' (FORMAT json)"
            )
        aside.rename(file)
        files.append(file)
    return files


def write_names(folder: Path, rows: int = KEYS) -> None:
    """A name for each key, and for others up to so many rows, as others would keep them:
    `names.csv`."""
    with (folder / "names.csv").open("w") as file:
        file.write("id,name\n")
        file.writelines(f"key{number},Name {number}\n" for number in range(rows))


def _events(start: int, end: int, keys: int, every: int) -> str:
    step = 86_400_000_000 // ROWS_A_DAY
    first_day = f"TIMESTAMP '{FIRST_DAY:%Y-%m-%d}'"
    return f"""
        SELECT strftime({first_day} + to_microseconds(n * {step} - (hash(n) % 300000000)::BIGINT),
                '%Y-%m-%dT%H:%M:%S.%fZ') AS at,
            CASE WHEN n % 200 < 199 THEN 'key' || (hash(n + 1) % {keys}) END AS key,
            hash(n + 2) % 100 AS amount
        FROM range({start}, {end}) AS numbers(n) WHERE n % {every} = 0
    """
