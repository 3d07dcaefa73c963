"""What each setting is worth: a small run of the platform with one of them taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import OURS, Workspace, pipeline_content, write_settings
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


def _spark(name: str, value: str) -> Mapping[str, object]:
    return {"spark": {name: value}}


AS_IT_IS = Variant("as it is")
VARIANTS = (
    AS_IT_IS,
    Variant("no class-data archive", environment=_without("-XX:SharedArchiveFile")),
    Variant("both compilers (C1 and C2)", environment=_without("-XX:TieredStopAtLevel")),
    Variant("the default collector (G1)", environment=_without("-XX:+UseSerialGC")),
    Variant("200 shuffle partitions", {"shuffle_partitions": 200}),
    Variant("50 snapshot partitions", _spark("spark.databricks.delta.snapshotPartitions", "50")),
    Variant("adaptive execution", _spark("spark.sql.adaptive.enabled", "true")),
    Variant("user interface", _spark("spark.ui.enabled", "true")),
    Variant("call sites of columns", _spark("spark.python.sql.dataFrameDebugging.enabled", "true")),
)


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each variant in turn on each small input; the first turn is not counted."""
    source = folder / "source"
    places = {one.name: Workspace(source, folder / str(n)) for n, one in enumerate(VARIANTS)}
    costs: dict[str, list[Cost]] = {one.name: [] for one in VARIANTS}
    for variant in VARIANTS:
        content = pipeline_content(source, **variant.advanced)
        write_settings(places[variant.name].root, content)
    for number in range(sizes.repetitions + 1):
        write_events(source, number * sizes.small_rows, sizes.small_rows)
        for variant in VARIANTS:
            command = OURS.start(places[variant.name])
            environment = variant.environment(OURS.environment(places[variant.name]))
            cost = cost_of(command, environment, folder / "runs.log")
            if number:
                costs[variant.name].append(cost)
    return [_figure(costs)]


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
        names = [name for name in list(costs)[::-1] if name != base]
        axes.barh(names, [cpu[name] - cpu[base] for name in names], label="CPU", height=0.7)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_xlabel("CPU seconds more than as it is")

    numbers = {name: [vars(cost) for cost in some] for name, some in costs.items()}
    columns = ("a small run with", "wall, s", "more", "CPU, s", "more", "peak MB")
    told = ["One setting is taken back at a time; what they save together is more."]
    title = "What each setting is worth"
    return Figure("settings", title, columns, rows, told, numbers, draw)
