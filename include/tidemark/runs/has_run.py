"""Has a pipeline made any table? What reads tables asks it before a JVM starts to say that not."""

from __future__ import annotations

from tidemark.errors import GoldNotFound
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.files import list_folder
from tidemark.storage.root import check_root


def check_has_run(pipeline: Pipeline, settings: Settings, what: str) -> None:
    """GoldNotFound where there is nothing to `what`: neither bronze, nor a checkpoint, nor a table
    is there. Where any is, what rests on it says what is lost. RootMissing as `check_root`."""
    check_root(settings)
    there = list_folder(Places(settings.root, pipeline.name).folder, settings.storage_options)
    if there.keys().isdisjoint({"bronze", "checkpoints", *pipeline.tables}):
        raise GoldNotFound(
            f"{pipeline.name} has not run yet, so there is nothing to {what}: no run has made a "
            f"table. `tidemark run {pipeline.name}` runs it."
        )
