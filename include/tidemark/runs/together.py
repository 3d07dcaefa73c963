"""Which pipelines one start of Spark can run, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.jvm import LARGE_BYTES
from tidemark.pipeline.settings.settings import Settings, spark_conf
from tidemark.pipeline.settings.spark import of_the_process
from tidemark.sources.new_input import new_input_bytes


@dataclass(frozen=True)
class JobGroup:
    """Pipelines that one JVM runs: those whose settings of the process are equal, and whose input
    is large, or is not. `input_bytes` is the largest input."""

    pipelines: tuple[Pipeline, ...]
    input_bytes: int


def groups_of(needing: Iterable[Pipeline], settings: Settings) -> list[JobGroup]:
    """The pipelines as few JVMs can run them, each group in the order in which they came."""
    groups: dict[object, list[tuple[Pipeline, int]]] = {}
    given = spark_conf(settings)
    for one in needing:
        own = of_the_process({**given, **of_the_process(one.advanced.spark)})
        size = new_input_bytes(one, settings)
        key = (size >= LARGE_BYTES, tuple(sorted(own.items())))
        groups.setdefault(key, []).append((one, size))
    return [
        JobGroup(tuple(one for one, _ in group), max(size for _, size in group))
        for group in groups.values()
    ]
