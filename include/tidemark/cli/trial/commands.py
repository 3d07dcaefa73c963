"""`tidemark try`: run a pipeline over its first rows, below a root of its own.

1. Put a copy of the pipeline's file into a temporary root, whose source are the first rows alone:
   messages of a topic and rows of a table where they are, lines of files as copies.
2. Run that copy as `tidemark run` does; the settings are those of the pipeline, but for the root.
3. Print its tables, its rejects and the ledger's lines.
4. Remove the temporary root, also after Ctrl-C; what a SIGKILL leaves lies in the system's folder
   of temporary files.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.console import report_console
from tidemark.cli.options import PipelineName, SettingsFile, asked_pipeline
from tidemark.cli.run import run
from tidemark.cli.trial.first_rows import take_first_rows, trial_environment, write_pipeline
from tidemark.errors import FAILED, SUCCESS, ResultUnreadable
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.results.result import RunResult
from tidemark.sources.source import FirstRows
from tidemark.storage.result_file import read_result

_SHOWN = 3
RUN = "try"


def _fold_faults(pipeline: Pipeline, places: Places) -> list[str]:
    """A few of the keys of which two folds of the trial's rows differ; none where all is well."""
    from tidemark.operators.folds.folds import Folds
    from tidemark.operators.folds.tried import not_deterministic
    from tidemark.operators.kinds import operator_of
    from tidemark.storage.delta.place import TablePlace

    bronze = TablePlace(places.bronze).open()
    if bronze is None:
        return []
    found: list[str] = []
    for name in pipeline.tables:
        operator = operator_of(pipeline, name)
        if isinstance(operator, Folds):
            first = islice(not_deterministic(operator, bronze), _SHOWN)
            found += [f"{name}: {one}" for one in first]
    return found


def try_pipeline(
    pipeline: PipelineName,
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many rows of the source are taken.")
    ] = 1_000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the temporary root, to look at it.")
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """Run a pipeline once over its first rows, below a temporary root, and show what comes of it.

    Nothing below the real root is written, no lease is taken, and nothing is remembered. Exits as
    `tidemark run` does, and with 1 when every row is rejected.
    """
    found, loaded = asked_pipeline(pipeline, settings)
    with temporary_root(loaded, keep) as root:
        taken = take_first_rows(found, loaded, rows, root)
        tell_taken(found, taken)
        file = write_pipeline(found, taken.source, root / "pipelines", loaded)
        with _environment(trial_environment(os.environ, loaded, root, file)):
            code = _run(file, settings)
        code = _show(found, Places(str(root), found.name)) or code
    if keep:
        print(f"\nThe temporary root is kept: {root}")
    else:
        print("\nThe temporary root is removed, and nothing else was written.")
        if code:
            print("With --keep it stays, and Spark's own log in it.")
    raise typer.Exit(code)


@contextmanager
def temporary_root(settings: Settings, keep: bool = False) -> Iterator[Path]:
    """A root among the system's temporary files, which is removed unless it is kept."""
    root = Path(tempfile.mkdtemp(prefix="tidemark-try-")).resolve()
    if settings.root_marker:
        (root / settings.root_marker).touch()
    try:
        yield root
    finally:
        if not keep:
            shutil.rmtree(root)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set the variables of this process and those that it starts."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(file: Path, settings: Path | None) -> int:
    """Run the copy to its end, which prints its result; its exit code."""
    try:
        run([str(file)], settings=settings, run_id=RUN)
    except typer.Exit as ended:
        return ended.exit_code
    return SUCCESS


def tell_taken(pipeline: Pipeline, taken: FirstRows) -> None:
    """Tell on stderr which rows a trial has, and what of the source was passed over."""
    print(f"{pipeline.name}: {taken.label}", file=sys.stderr)
    for note in taken.notes:
        print(f"{pipeline.name}: passed over: {note}", file=sys.stderr)


def _show(pipeline: Pipeline, places: Places) -> int:
    """Print what there is; FAILED where that is a trial that fails."""
    from tidemark.cli.trial.report import print_trial

    print_trial(pipeline, places, report_console())
    faults = trial_faults(pipeline, places)
    for fault in faults:
        print(f"\n{fault}", file=sys.stderr)
    return FAILED if faults else SUCCESS


def trial_faults(pipeline: Pipeline, places: Places) -> list[str]:
    """Why a trial whose run went well fails all the same: by its folds, or as no row was accepted;
    nothing where all is well."""
    if faults := _fold_faults(pipeline, places):
        return faults
    with suppress(ResultUnreadable):
        rows = read_result(RunResult, places.result(RUN), {}).rows
        if rows.read and not rows.accepted:
            told = f"Each of the {rows.judged:,} rows was rejected"
            if not rows.judged and rows.records is not None:
                told = f"None of the {rows.read:,} records came to a row ({rows.records.label})"
            return [f"{told}: correct the file."]
    return []
