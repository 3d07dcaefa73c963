"""The judge alone, on lines of one kind each; its rival only reads them, with `json.loads`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure
from bench.measured import spread
from bench.sizes import Sizes
from tidemark.judge.judge import Judge
from tidemark.judge.rules import Rules, rules_of
from tidemark.pipeline.load import pipeline_from_mapping

BATCH_TIME_MS = 1_780_000_000_000
COLUMNS = {
    "at": "timestamp", "id": "string not null", "page": "string", "n": "int",
    "amount": "decimal(10,2)", "share": "double",
}  # fmt: skip
NESTED = {
    "price": "struct<net:decimal(10,2),tax:double>",
    "items": "array<struct<sku:string,n:int>>",
}
_TYPES = ("string", "long", "double", "decimal(10,2)", "boolean", "timestamp", "int", "date")
WIDE = {f"c{place}": _TYPES[place % len(_TYPES)] for place in range(54)}
_PRICE = {"net": 12.5, "tax": 0.2}
_ITEMS = [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]


@dataclass(frozen=True)
class Lines:
    """A kind of lines: what the row of a number has besides or instead, and how it is written.

    `share`: so many times fewer lines than of others.
    """

    further: Callable[[int], Mapping[str, Any]] = lambda n: {}
    columns: Mapping[str, str] = field(default_factory=dict)
    unknown_fields: str = "keep"
    write: Callable[[int, str], str] = lambda n, line: line
    share: int = 1


def _new(n: int) -> dict[str, Any]:
    return {"session": f"s{n}"}


def _widened(kind: Lines) -> Lines:
    return replace(
        kind,
        columns={**WIDE, **kind.columns},
        further=lambda n: {**_wide(n), **kind.further(n)},
        share=5,
    )


def _wide(n: int) -> dict[str, Any]:
    """The values of 54 further columns, as long as those of real rows are."""
    day = f"2026-03-{1 + n % 28:02}"
    values = (
        *(f"text {n}", n * 13, n * 0.37, n % 100_000 / 100, n % 2 == 0),
        *(f"{day}T{n % 24:02}:00:00Z", n % 1_000, day),
    )
    return {name: values[place % len(values)] for place, name in enumerate(WIDE)}


KINDS = {
    "as declared": Lines(),
    "structs and arrays of structs": Lines(lambda n: {"price": _PRICE, "items": _ITEMS}, NESTED),
    "a map": Lines(lambda n: {"tags": {"a": "x", "b": f"{n}"}}, {"tags": "map<string,string>"}),
    "an unknown field, kept": Lines(_new),
    "an unknown field, ignored": Lines(_new, unknown_fields="ignore"),
    "an unknown field, rejected": Lines(_new, unknown_fields="reject"),
    "an unknown field that is an object": Lines(lambda n: {"geo": {"lat": 48.2, "lon": n / 8}}),
    "an unknown field in a struct": Lines(lambda n: {"price": _PRICE | _new(n)}, NESTED),
    "a value of another type": Lines(lambda n: {"n": "many"}),
    "a required value missing": Lines(lambda n: {"id": None}),
    "1% rejected": Lines(lambda n: {} if n % 100 else {"n": "many"}),
    "5% with a field twice": Lines(
        write=lambda n, line: line if n % 20 else f'{line[:-1]},"n":1}}'
    ),
    "all cut off": Lines(write=lambda n, line: line[:-9]),
}
# Those that are told with 60 columns too.
_ALSO_WIDE = (
    "as declared", "a map", "an unknown field, kept", "an unknown field that is an object",
    "an unknown field in a struct", "a value of another type", "5% with a field twice",
    "all cut off",
)  # fmt: skip
KINDS |= {f"60 columns, {name}": _widened(KINDS[name]) for name in _ALSO_WIDE}


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Lines a CPU second, in one thread of this process; judge and rival take turns."""
    found = {name: _measured(kind, sizes) for name, kind in KINDS.items()}
    return [_figure(found, sizes)]


def _measured(kind: Lines, sizes: Sizes) -> dict[str, list[float]]:
    rules, lines = _rules(kind), list(_lines(kind, sizes.judged_lines // kind.share))
    array = pa.array(lines, pa.binary())
    rates: dict[str, list[float]] = {"judge": [], "json.loads": []}
    for _ in range(sizes.warm_ups + sizes.repetitions):
        steps = (lambda: Judge(rules, BATCH_TIME_MS).judge(array)), (lambda: _load_each(lines))
        for what, step in zip(rates, steps, strict=True):
            begin = time.process_time()
            step()
            rates[what].append(len(lines) / (time.process_time() - begin))
    return {what: some[sizes.warm_ups :] for what, some in rates.items()}


def _rules(kind: Lines) -> Rules:
    source = {
        "files": "landing/*.json",
        "columns": {**COLUMNS, **kind.columns},
        "event_time": {"column": "at"},
        "unknown_fields": kind.unknown_fields,
    }
    table = {"window": {"length": "10 minutes"}, "measures": {"rows_seen": "count(*)"}}
    content = {"source": source, "watermark": {"delay": "10 minutes"}, "tables": {"all": table}}
    return rules_of(pipeline_from_mapping("judged", content))


def _lines(kind: Lines, number: int) -> Iterator[bytes]:
    for n in range(number):
        row = {
            "at": f"2026-03-{1 + n % 28:02}T{n % 24:02}:{n % 60:02}:00.{n % 1000:03}Z",
            "id": f"id-{n:08}", "page": f"/shop/{n % 313}", "n": n % 1000,
            "amount": n % 100_000 / 100, "share": n * 0.37, **kind.further(n),
        }  # fmt: skip
        yield kind.write(n, json.dumps(row, separators=(",", ":"))).encode()


def _load_each(lines: Sequence[bytes]) -> None:
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            continue


def _figure(found: Mapping[str, Mapping[str, Sequence[float]]], sizes: Sizes) -> Figure:
    rows = [
        [
            name,
            spread(rates["judge"], 0),
            spread(rates["json.loads"], 0),
            f"{max(rates['judge']) / max(rates['json.loads']):.2f}",
        ]
        for name, rates in found.items()
    ]

    def draw(axes: Axes) -> None:
        bars(axes, found, "lines a CPU second", 0)

    columns = ("all lines with", "judge, lines/s", "json.loads, lines/s", "best / best")
    told = [
        f"{sizes.judged_lines:,} lines of each kind, with six columns and more, of those with 60 "
        "columns a fifth; one thread, CPU seconds. `json.loads` "
        "looks at no type, no column and no repeated field."
    ]
    return Figure("judging", "The judge alone, by kind of line", columns, rows, told, found, draw)
