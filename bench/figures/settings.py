"""What each setting is worth: a small run of the platform with one of them taken back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import OURS, Workspace, check_gold, pipeline_content, write_settings
from bench.drawing import bars
from bench.figure import Figure
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

Environment = Mapping[str, str]


@dataclass(frozen=True)
class Variant:
    """The platform with something taken back: settings of the pipeline, or of the environment."""

    name: str
    advanced: Mapping[str, object] = field(default_factory=dict)
    environment: Callable[[Environment], Environment] = dict


def _without(*beginnings: str) -> Callable[[Environment], Environment]:
    """The JVM's flags but for those that begin so."""

    def changed(environment: Environment) -> Environment:
        flags = environment["SPARK_SUBMIT_OPTS"].split()
        kept = [flag for flag in flags if not flag.startswith(beginnings)]
        return {**environment, "SPARK_SUBMIT_OPTS": " ".join(kept)}

    return changed


def _spark(name: str, value: str) -> Callable[[Environment], Environment]:
    """With a setting of Spark that no pipeline may change."""
    return lambda environment: {**environment, "TIDEMARK_SPARK": json.dumps({name: value})}


AS_IT_IS = Variant("as it is")
# Nothing is taken back at the beginning and at the end of a turn: the two tell the noise.
TURN = (
    AS_IT_IS,
    Variant("no class-data archive", environment=_without("-XX:SharedArchiveFile")),
    Variant("both compilers (C1 and C2)", environment=_without("-XX:TieredStopAtLevel")),
    Variant("the default collector (G1)", environment=_without("-XX:+UseSerialGC")),
    Variant("200 shuffle partitions", {"shuffle_partitions": 200}),
    Variant(
        "50 snapshot partitions",
        environment=_spark("spark.databricks.delta.snapshotPartitions", "50"),
    ),
    Variant("adaptive execution", environment=_spark("spark.sql.adaptive.enabled", "true")),
    Variant("user interface", environment=_spark("spark.ui.enabled", "true")),
    Variant(
        "call sites of columns",
        environment=_spark("spark.python.sql.dataFrameDebugging.enabled", "true"),
    ),
    AS_IT_IS,
)


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each variant in turn on each small input; all must come to the same gold."""
    source, log = folder / "source", folder / "runs.log"
    turn = [(one, Workspace(source, folder / str(n))) for n, one in enumerate(TURN)]
    write_events(source, 0, sizes.small_rows)
    _prepare(turn, log)
    costs: dict[str, list[Cost]] = {one.name: [] for one in TURN}
    for number in range(1, sizes.setting_repetitions + 1):
        write_events(source, number * sizes.small_rows, sizes.small_rows)
        for variant, place in turn:
            costs[variant.name].append(_run(variant, place, log))
    check_gold(
        {replace(OURS, name=f"{one.name} ({place.root.name})"): place for one, place in turn}
    )
    return [_figure(costs)]


def _prepare(turn: Sequence[tuple[Variant, Workspace]], log: Path) -> None:
    """Tables and a first batch for each variant, so that no run that is counted makes them.

    One run makes them, and the others take a copy; a state of other partitions needs its own run.
    """
    (as_it_is, first), *others = turn
    _run(as_it_is, first, log)
    for variant, place in others:
        if "shuffle_partitions" in variant.advanced:
            _run(variant, place, log)
        else:
            own = shutil.ignore_patterns("settings.yaml", "pipelines")
            shutil.copytree(first.root, place.root, ignore=own)


def _run(variant: Variant, place: Workspace, log: Path) -> Cost:
    write_settings(place.root, pipeline_content(place.source, **variant.advanced))
    environment = variant.environment(OURS.environment(place))
    return cost_of(OURS.start(place), environment, log)


def _figure(costs: Mapping[str, list[Cost]]) -> Figure:
    wall = {name: median([cost.wall for cost in some]) for name, some in costs.items()}
    cpu = {name: median([cost.cpu for cost in some]) for name, some in costs.items()}
    base = AS_IT_IS.name
    rows = [
        [
            name,
            spread([cost.wall for cost in some]),
            f"{wall[name] - wall[base]:+.1f}" if name != base else "",
            spread([cost.cpu for cost in some]),
            f"{cpu[name] - cpu[base]:+.1f}" if name != base else "",
            f"{max(cost.peak_mb for cost in some):,.0f}",
        ]
        for name, some in costs.items()
    ]

    def draw(axes: Axes) -> None:
        found = {
            name: {
                "wall": [cost.wall - wall[base] for cost in some],
                "CPU": [cost.cpu - cpu[base] for cost in some],
            }
            for name, some in costs.items()
        }
        bars(axes, found, "seconds more than as it is")

    numbers = {name: [vars(cost) for cost in some] for name, some in costs.items()}
    columns = ("a small run with", "wall, s", "more", "CPU, s", "more", "peak MB")
    told = [
        "One setting is taken back at a time; what they save together is more.",
        "“As it is” stands at the beginning and at the end of each turn: less than its spread is "
        "noise.",
    ]
    title = "What each setting is worth"
    return Figure("settings", title, columns, rows, told, numbers, draw)
