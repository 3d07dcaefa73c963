"""Rows per second and CPU seconds from a topic to gold, and what a run costs that finds nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import (
    Contender,
    Workspace,
    check_gold,
    one_compiler,
    our_command,
    our_gold,
    our_job,
    pipeline_content,
    rival_gold,
    script,
    with_both_compilers,
    write_settings,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes
from bench.topics import Topic, connector_jars, topic_of

_OURS = ("tidemark, one compiler", "tidemark, both compilers")
_TUNED = ("tuned, one compiler", "tuned, both compilers")
_IDLE = "nothing new, by `tidemark run`"
_CONNECTION = "bench"
Environment = Callable[[Workspace], dict[str, str]]


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each contender in turn from an empty folder, each repetition anew; then ours once more."""
    messages, repetitions = sizes.kafka
    write_events(folder / "source", 0, messages)
    with topic_of(_lines(folder / "source"), folder / "broker") as topic:
        contenders = _contenders(topic)
        costs: dict[str, list[Cost]] = {name: [] for name in (*_OURS, *_TUNED, _IDLE)}
        for number in range(repetitions):
            places = {one: Workspace(folder, folder / one.name) for one in contenders}
            for one, place in places.items():
                shutil.rmtree(place.root, ignore_errors=True)
                log = folder / f"{number}-{one.name}.log"
                costs[one.name].append(cost_of(one.start(place), one.environment(place), log))
            check_gold(places)
            ours = contenders[0]
            files = write_settings(places[ours].root, _content(topic))
            command = our_command(places[ours], "run", *files)
            log = folder / f"{number}-idle.log"
            costs[_IDLE].append(cost_of(command, ours.environment(places[ours]), log))
    return [_figure(messages, costs)]


def _lines(source: Path) -> Iterator[bytes]:
    for file in sorted(source.iterdir()):
        with file.open("rb") as lines:
            for line in lines:
                yield line.rstrip(b"\n")


def _content(topic: Topic) -> dict[str, object]:
    """The pipeline of the other figures, over the topic."""
    content = pipeline_content(Path())
    source = dict(content["source"])  # type: ignore[call-overload]
    del source["files"]
    source["kafka"] = {"topic": topic.name, "connection": _CONNECTION}
    return content | {"source": source}


def _contenders(topic: Topic) -> tuple[Contender, ...]:
    jars = connector_jars()
    connection = {"servers": topic.servers, "security_protocol": "PLAINTEXT"}
    ours = {f"TIDEMARK_CONNECTIONS__{_CONNECTION.upper()}": json.dumps(connection)}
    theirs = {"SPARK_DIST_CLASSPATH": f"{os.environ['SPARK_DIST_CLASSPATH']}:{jars}/*"}

    def our_start(place: Workspace) -> list[str]:
        return our_job(place, _content(topic))

    def their_start(place: Workspace) -> list[str]:
        return script("tuned.py", place, source=f"kafka:{topic.servers}/{topic.name}")

    return (
        Contender(_OURS[0], our_start, _with(ours, one_compiler), our_gold),
        Contender(_OURS[1], our_start, _with(ours, with_both_compilers), our_gold),
        Contender(_TUNED[0], their_start, _with(theirs, one_compiler), rival_gold),
        Contender(_TUNED[1], their_start, _with(theirs, with_both_compilers), rival_gold),
    )


def _with(more: Mapping[str, str], environment: Environment) -> Environment:
    return lambda place: {**environment(place), **more}


def _figure(messages: int, costs: Mapping[str, list[Cost]]) -> Figure:
    wall = {name: median([cost.wall for cost in some]) for name, some in costs.items()}
    cpu = {name: median([cost.cpu for cost in some]) for name, some in costs.items()}
    rows = [
        [
            name,
            spread([cost.wall for cost in some]),
            "–" if name == _IDLE else f"{messages / wall[name]:,.0f}",
            spread([cost.cpu for cost in some]),
            f"{max(cost.peak_mb for cost in some):,.0f}",
        ]
        for name, some in costs.items()
    ]
    # Each at its own best, as in `throughput`.
    of_wall, of_cpu = (
        min(seen[name] for name in _OURS) / min(seen[name] for name in _TUNED)
        for seen in (wall, cpu)
    )
    told = [
        f"{messages:,} messages in two partitions, each at its best: tidemark takes {of_cpu:.2f} "
        f"of tuned's CPU seconds and {of_wall:.2f} of its time.",
        "A run that finds nothing new asks the broker, starts no JVM, and takes "
        f"{wall[_IDLE]:.1f} s ({cpu[_IDLE]:.1f} CPU seconds).",
    ]
    goals = [
        Goal(f"{messages:,} messages of Kafka: CPU s, tidemark / tuned", of_cpu, 1.0),
        Goal(f"{messages:,} messages of Kafka: wall s, tidemark / tuned", of_wall, 1.0),
    ]
    rates = {
        name: {f"{messages:,} messages": [messages / cost.wall for cost in some]}
        for name, some in costs.items()
        if name != _IDLE
    }

    def draw(axes: Axes) -> None:
        bars(axes, rates, "messages per second", digits=0)

    numbers = {name: [vars(cost) for cost in some] for name, some in costs.items()}
    columns = ("contender", "wall, s", "messages/s", "CPU, s", "peak MB")
    title = "From a topic of Kafka to bronze and gold, all at once"
    return Figure("kafka", title, columns, rows, told, numbers, draw, goals)
