"""`tidemark validate`: are the pipeline files good, and can their tables go on with them?

Writes nothing, and starts nothing but the folds of a pipeline, over rows that are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.options import SettingsFile
from tidemark.errors import (
    FAILED,
    PipelineInvalid,
    PipelineNotFound,
    SettingsInvalid,
    TidemarkError,
)
from tidemark.pipeline.granted import check_granted
from tidemark.pipeline.load import (
    ENDINGS,
    find_pipeline,
    load_pipeline,
    pipeline_files,
    unread_below,
)
from tidemark.pipeline.model import CalendarTable, FoldTable, Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import load_settings
from tidemark.storage.files import list_folder

Load = Callable[[], Pipeline]


def validate(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PIPELINE",
            show_default=False,
            help="Names, or paths of files; all of the settings' folder where none is given.",
        ),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Check pipeline files, and tell all that is wrong with each.

    Prints a line for each good file, and for a bad one every problem with its line and column.
    Where a pipeline has run, also what changed in its file since, and what the next run will do
    about it. Exits with 1 when any file is bad, or changed in a way that a run refuses.
    """
    loads = _named(pipelines, settings) if pipelines else _of_folder(settings)
    verdicts = [_tell(load, settings) for load in loads]
    bad = verdicts.count(False)
    if bad and len(verdicts) > 1:
        print(f"{bad} of {len(verdicts)} pipelines cannot be used.")
    if bad:
        raise typer.Exit(FAILED)


def _named(names: list[str], settings: Path | None) -> Iterator[Load]:
    """A path needs no settings: a file can be checked where there is no project yet."""
    for name in names:
        path = Path(name)
        if path.suffix.lower() in ENDINGS and path.is_file():
            yield partial(load_pipeline, path)
        else:
            yield partial(find_pipeline, name, load_settings(settings))


def _of_folder(settings: Path | None) -> Iterator[Load]:
    folder = load_settings(settings).pipelines_folder
    files = pipeline_files(folder)
    if not files:
        none = f"holds no pipeline file{unread_below(folder)}"
        state = none if folder.is_dir() else "does not exist"
        print(f"Nothing to check: the pipelines' folder {folder} {state}.")
    for file in files:
        yield partial(load_pipeline, file)


def _tell(load: Load, settings: Path | None) -> bool:
    try:
        pipeline = load()
    except (PipelineInvalid, PipelineNotFound) as error:
        print(error)
        return False
    lines, refusal = _changes(pipeline, settings)
    if refusals := [*fold_faults(pipeline)] if refusal is None else [refusal]:
        print("\n".join(refusals))
        return False
    print(f"{pipeline.name}: good (tables: {', '.join(pipeline.tables)})")
    for line in (*_chosen(pipeline), *lines):
        print(f"  {line}")
    return True


def _chosen(pipeline: Pipeline) -> Iterator[str]:
    """What the file does not say, and follows from it."""
    for name, table in pipeline.tables.items():
        said = "stream" in table.model_fields_set or isinstance(table, CalendarTable)
        lookups = ", ".join(pipeline.lookups_of(name))
        why = f"as it names columns of the lookup {lookups}" if lookups else None
        if table.unbounded is not None:
            why = f"as `{table.unbounded}` keeps all values of a window"
        if not said and why is not None:
            yield f"{name}: computed from bronze in each run (`stream: recompute`), {why}"


def fold_faults(pipeline: Pipeline) -> Iterator[str]:
    """What is wrong with the Python of a pipeline's folds, which is run; nothing without any."""
    if any(isinstance(table, FoldTable) for table in pipeline.tables.values()):
        # Arrow, and the code of the pipeline itself.
        from tidemark.operators.folds import validated

        yield from validated.fold_faults(pipeline)


def _changes(pipeline: Pipeline, file: Path | None) -> tuple[list[str], str | None]:
    """What changed since the last run, and why the next run refuses the pipeline; None where it
    does not."""
    try:
        settings = load_settings(file)
        check_granted(pipeline, settings)
        places = Places(settings.root, pipeline.name)
        if not list_folder(places.checkpoints, settings.storage_options):
            return [], None
        from tidemark.runs.contract.check import compare_contracts, contract_refusal

        compared = compare_contracts(pipeline, settings)
        if compared.refused:
            return [], contract_refusal(pipeline, settings, compared.refused)
    except PipelineInvalid as error:
        return [], str(error)
    except SettingsInvalid:
        # A file can be checked where there is no project yet.
        return [], None
    except TidemarkError as error:
        return [f"What changed since the last run could not be told: {error}"], None
    return [str(found) for found in compared.differences], None
