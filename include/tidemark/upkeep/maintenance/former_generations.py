"""Checkpoints of generations that are not in use: they go once there is no way back to them.

Their contracts and their `changes` stay: a number is never used twice, and the history of a table's
windows is told by all of its generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tidemark.gold.checkpoints import query_checkpoint
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline
from tidemark.runs.generations import abandoned, begun_at, generations
from tidemark.storage.files import FileFacts
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
        used, left, begun = generation_of(gold), abandoned(gold), begun_at(gold)
        for number in generations(warehouse, name):
            checkpoint = query_checkpoint(warehouse, name, number)
            # A later one that ran and that nobody went back from: gold itself is an old one.
            is_lost = number > max(used, left) and checkpoint.last_batch("commits") is not None
            if number == used or is_lost:
                continue
            if files := warehouse.file_at(checkpoint.uri).files():
                yield plan_generation(name, number, checkpoint.uri, files, begun, keep, now)


def plan_generation(
    table: str,
    number: int,
    uri: str,
    files: Mapping[str, FileFacts],
    since: datetime | None,
    keep: timedelta,
    now: datetime,
) -> MaintenancePlan:
    """All files of a checkpoint go together, `keep` after the last of them was written and the
    generation in use was begun, `since` (None: longer ago than can be told). Pure."""
    written = [facts.modified for facts in files.values()]
    last = max(written if since is None else [since, *written])
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
