"""Checkpoints of generations that are not in use: they go once there is no way back to them.

Their contracts and their `changes` stay: a number is never used twice, and the history of a table's
windows is told by all of its generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline
from tidemark.runs.generations import generations
from tidemark.storage.files import FileFacts, stat_files
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part, Work


def plan_generations(
    pipeline: Pipeline, warehouse: Warehouse, keep: timedelta, now: datetime
) -> Iterator[MaintenancePlan]:
    """A plan for each checkpoint that is not in use; `now` is in UTC. None where gold is gone: then
    nobody can tell which one is."""
    for name in pipeline.tables:
        gold = warehouse.gold(name).open()
        if gold is None:
            continue
        used = generation_of(gold)
        contract = warehouse.places.contract(name, used)
        begun = stat_files([contract], warehouse.options)[contract]
        for number in generations(warehouse, name):
            uri = Checkpoint.of_query(warehouse, name, number).uri
            files = warehouse.file_at(uri).files() if number != used else {}
            if files and begun is not None:
                yield plan_generation(name, number, uri, files, begun.modified, keep, now)


def plan_generation(
    table: str,
    number: int,
    uri: str,
    files: Mapping[str, FileFacts],
    since: datetime,
    keep: timedelta,
    now: datetime,
) -> MaintenancePlan:
    """All files of a checkpoint go together, `keep` after the last of them was written and the
    generation in use was begun, `since`. Pure."""
    last = max(since, *(facts.modified for facts in files.values()))
    going = tuple(sorted(files)) if last < now - keep else ()
    size = sum(facts.size for facts in files.values())
    part = Part(
        Work.FORMER_CHECKPOINTS,
        len(files),
        size,
        len(going),
        size if going else 0,
        f"not in use for {duration_text(keep)}" if going else "there is still a way back to it",
    )
    return MaintenancePlan(f"{table}, generation {number}", uri, (part,), remove=going)
