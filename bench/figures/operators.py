"""Sessions, joins and folds, held against bronze before each publish, beside the engine's own
without that; and computed from bronze alone. Local days, distinct counts and lookups, which are
always computed from bronze, beside a script that does so by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from time import process_time

import duckdb
from matplotlib.axes import Axes

from bench.contenders import (
    CLICKS,
    FOLD_EMITS,
    GAP,
    OUR_CLICKS,
    OUR_CLOSED,
    OUR_DAYS,
    OUR_DISTINCT,
    OUR_FOLDS,
    OUR_JOINS,
    OUR_LOOKUP,
    OUR_SESSIONS,
    RECOMPUTED_FOLDS,
    RECOMPUTED_JOINS,
    RECOMPUTED_SESSIONS,
    TUNED_DAYS,
    TUNED_DISTINCT,
    TUNED_FOLDS,
    TUNED_JOINS,
    TUNED_LARGE_LOOKUP,
    TUNED_LOOKUP,
    TUNED_SESSIONS,
    WITHOUT_LOOKUP,
    Contender,
    GoldDiffers,
    Workspace,
    check_gold,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.folds.episodes import Episodes
from bench.inputs import KEYS, write_events, write_names
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes
from tidemark.operators.folds.folding import Folding, FoldSpec, HeldRow
from tidemark.pipeline.durations import parse_duration

_LARGE, _SMALL = "large", "small"
# Of events, those that are clicks too.
_EVERY = 10
# So many rows are folded without Spark.
_FOLDED_ROWS = 500_000


@dataclass(frozen=True)
class _Kind:
    """`of`: what gold has rows of. `told`: what has to be known of the comparison. `recomputed`:
    the same table computed from bronze; None where it always is. `without`: it without a lookup."""

    name: str
    title: str
    of: str
    ours: Contender
    by_hand: Contender
    recomputed: Contender | None = None
    told: Sequence[str] = ()
    without: Contender | None = None


_SESSIONS = _Kind(
    "sessions", "Sessions", "sessions", OUR_SESSIONS, TUNED_SESSIONS, RECOMPUTED_SESSIONS
)
_JOINS = _Kind(
    "joins",
    "Joins of two streams",
    "windows",
    OUR_JOINS,
    TUNED_JOINS,
    RECOMPUTED_JOINS,
    [
        f"Every {_EVERY}th event is a click too, which both read from the same bronze; the run "
        "that writes it is not counted. Each run finds rows of both sides: where it finds those of "
        "one alone, the script's watermark stands still, and its gold is behind.",
    ],
)
_FOLDS = _Kind(
    "folds", "Folds of a key's rows", "outputs", OUR_FOLDS, TUNED_FOLDS, RECOMPUTED_FOLDS
)

_DAYS = _Kind(
    "days",
    "Days of Vienna",
    "days of a key",
    OUR_DAYS,
    TUNED_DAYS,
    told=["A small run touches the newest day, a million rows of it when it ends: both read it."],
)
_DISTINCT = _Kind(
    "distinct", "Distinct values of each window", "windows", OUR_DISTINCT, TUNED_DISTINCT
)
_LOOKUP = _Kind("lookup", "A lookup", "windows", OUR_LOOKUP, TUNED_LOOKUP, without=WITHOUT_LOOKUP)
_LARGE_LOOKUP = _Kind(
    "large_lookup",
    "A large lookup",
    "windows",
    OUR_LOOKUP,
    TUNED_LARGE_LOOKUP,
    without=WITHOUT_LOOKUP,
)

_Costs = Mapping[str, Mapping[str, Sequence[Cost]]]


def _measured(kind: _Kind, sizes: Sizes, folder: Path) -> list[Figure]:
    """A first run over many rows, then small ones, for all in turn."""
    source, large, small = folder / "source", sizes.stateful_rows, sizes.small_rows
    ours = Workspace(source, folder / "0")
    clicks = None
    if kind is _JOINS:
        clicks = Workspace(folder / CLICKS, ours.root)
        ours = Workspace(source, ours.root, other=ours.root / CLICKS / "bronze")
    by_hand = Workspace(source, folder / "1", other=ours.other)
    places = {kind.ours: ours, kind.by_hand: by_hand}
    if other := kind.recomputed or kind.without:
        places[other] = ours
    if kind.without:
        write_names(folder, sizes.names if kind is _LARGE_LOOKUP else KEYS)
    costs: dict[str, dict[str, list[Cost]]] = {one.name: {} for one in places}
    landed = [(0, large), *((large + n * small, small) for n in range(sizes.repetitions + 1))]
    for number, (first, rows) in enumerate(landed):
        write_events(source, first, rows)
        if clicks:
            write_events(clicks.source, first, rows, every=_EVERY)
            log = folder / f"{CLICKS}.log"
            cost_of(OUR_CLICKS.start(clicks), OUR_CLICKS.environment(clicks), log)
        for contender, place in places.items():
            log = folder / f"{place.root.name}.log"
            cost = cost_of(contender.start(place), contender.environment(place), log)
            # The first small one is the first that finds a checkpoint.
            if number != 1:
                costs[contender.name].setdefault(_SMALL if number else _LARGE, []).append(cost)
    if kind.recomputed:
        check_gold({OUR_CLOSED: ours, kind.recomputed: ours})
    if not (compared := check_gold({kind.ours: ours, kind.by_hand: by_hand})):
        raise GoldDiffers(f"No {kind.of} came out: nothing was compared.")
    alone = _folding_alone(source) if kind is _FOLDS else None
    return [_figure(kind, sizes, costs, compared, alone)]


def _folding_alone(source: Path) -> float:
    """Our own folding, without Spark and tables: CPU microseconds a row."""
    spec = FoldSpec(
        python="episodes.py:Episodes",
        code={},
        timeout=parse_duration(GAP) // timedelta(microseconds=1),
        columns=("amount", "at", "key"),
        emits=FOLD_EMITS,
        given=Episodes,
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.execute(
            f"""
            SELECT epoch_us("at"), amount, "at", key
            FROM read_json('{source}/*.json', format = 'newline_delimited',
                columns = {{'at': 'TIMESTAMP', key: 'VARCHAR', amount: 'BIGINT'}})
            WHERE key IS NOT NULL LIMIT {_FOLDED_ROWS}
            """
        ).fetchall()
    held: dict[str, list[HeldRow]] = {}
    for time, amount, at, key in rows:
        held.setdefault(key, []).append(HeldRow(time, (amount, at.replace(tzinfo=UTC), key)))
    folding, begin = Folding(spec), process_time()
    for some in held.values():
        folding.fold(None, some, None)
    return (process_time() - begin) * 1e6 / len(rows)


def _figure(kind: _Kind, sizes: Sizes, costs: _Costs, compared: int, alone: float | None) -> Figure:
    cpu = {
        (name, size): median([cost.cpu for cost in some])
        for name, by_size in costs.items()
        for size, some in by_size.items()
    }
    ours, by_hand = kind.ours.name, kind.by_hand.name
    rows = [
        [
            name,
            size,
            spread([cost.wall for cost in some]),
            spread([cost.cpu for cost in some]),
            f"{cpu[name, size] / cpu[by_hand, size]:.2f}",
        ]
        for name, by_size in costs.items()
        for size, some in by_size.items()
    ]
    ratio = {size: cpu[ours, size] / cpu[by_hand, size] for size in (_LARGE, _SMALL)}
    told = [
        f"A first run over {sizes.stateful_rows:,} rows, then {sizes.small_rows:,} more a run: "
        f"{ratio[_LARGE]:.2f} and {ratio[_SMALL]:.2f} of the CPU seconds of the script by hand, "
        "which neither judges rows as we do nor notices what the engine got wrong. Both golds are "
        f"equal here ({compared:,} {kind.of}): no row is late.",
        *kind.told,
    ]
    if kind.recomputed:
        alone_in = [cpu[kind.recomputed.name, size] / cpu[ours, size] for size in (_LARGE, _SMALL)]
        told.insert(
            1,
            f"Computed from bronze alone (`stream: recompute`), {alone_in[0]:.2f} and "
            f"{alone_in[1]:.2f} of the CPU seconds of the engine's table, which shows the same "
            "closed rows.",
        )
    if kind.without:
        than = [cpu[ours, size] / cpu[kind.without.name, size] for size in (_LARGE, _SMALL)]
        names = sizes.names if kind is _LARGE_LOOKUP else KEYS
        told.append(
            f"The lookup has {names:,} rows: {than[0]:.2f} and {than[1]:.2f} of the CPU seconds of "
            "the same table without it. The first run copies it."
        )
    numbers: dict[str, object] = {
        name: {size: [vars(cost) for cost in some] for size, some in by_size.items()}
        for name, by_size in costs.items()
    }
    if alone is not None:
        a_row = {name: cpu[name, _LARGE] * 1e6 / sizes.stateful_rows for name in costs}
        numbers["CPU microseconds a row"] = {**a_row, "folding alone": alone}
        told.append(
            f"A row of the first run takes {a_row[ours]:.0f} CPU microseconds, start-up and ingest "
            f"among them, by hand {a_row[by_hand]:.0f}. Our folding alone, in Python without Spark "
            f"and tables, takes {alone:.1f} of them."
        )

    def draw(axes: Axes) -> None:
        bars(
            axes,
            {
                name: {size: [cost.cpu for cost in some] for size, some in by_size.items()}
                for name, by_size in costs.items()
            },
            "CPU seconds",
        )

    columns = ("contender", "run", "wall, s", "CPU, s", "CPU / by hand")
    what = f"{kind.name}: CPU seconds of a small run, tidemark / by hand"
    goals = [Goal(what, ratio[_SMALL], 1.2)]
    if kind.without:
        what = f"{kind.name}: CPU seconds of a small run, with it / without"
        goals.append(Goal(what, than[1], 1.2))
    return Figure(kind.name, kind.title, columns, rows, told, numbers, draw, goals)


sessions, joins, folds, days, distinct, lookup, large_lookup = (
    partial(_measured, kind)
    for kind in (_SESSIONS, _JOINS, _FOLDS, _DAYS, _DISTINCT, _LOOKUP, _LARGE_LOOKUP)
)
