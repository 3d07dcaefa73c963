"""A pipeline from Python, in a notebook or a script: load it, try it, run it, read its tables.

A pipeline means what its file says, and nothing else: code that makes pipelines writes their files.
What runs is the command `tidemark run`, in a process of its own. This process may be a notebook's,
which a lease that is lost must not end, and whose modules, variables and signals are its user's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from tidemark import errors
from tidemark.errors import PipelineExists, PipelineInvalid, ResultUnreadable, TidemarkError
from tidemark.pipeline.granted import check_granted
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline_file, load_pipeline, pipeline_from_content
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.pipeline.yaml_file import Document, parse_document
from tidemark.printed import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemark.gold.reading import Instant
    from tidemark.runs.results.result import RunResult


@dataclass(frozen=True, repr=False)
class LoadedPipeline:
    """A pipeline's file as it was loaded, and the settings then. Equal to another that means the
    same, wherever the files of the two lie."""

    model: Pipeline
    settings: Settings
    file: Path = field(compare=False)
    settings_file: Path | None = field(compare=False)

    @property
    def name(self) -> str:
        """The pipeline's name, and its file's without its ending."""
        return self.model.name

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: tables {', '.join(self.model.tables)}; {self.file}>"

    def try_(self, rows: int = 1_000) -> TrialResult:
        """Run the pipeline over the first rows of its source, as `tidemark try` does: below a root
        that is removed again. Nothing else is written, and no lease is taken.

        Raises as `run` does, and SampleUnusable where there is no row to try.
        """
        # delta-rs, Arrow and DuckDB, which loading and writing do without.
        from tidemark.cli.console import report_console
        from tidemark.cli.trial import commands, first_rows
        from tidemark.cli.trial.report import print_trial
        from tidemark.storage.delta.dataset import dataset_of
        from tidemark.storage.delta.place import TablePlace

        if rows < 1:
            raise ValueError(f"rows is {rows}: at least one row is tried")
        self._check_unchanged()
        with commands.temporary_root(self.settings) as root:
            taken = first_rows.take_first_rows(self.model, self.settings, rows, root)
            commands.tell_taken(self.model, taken)
            folder = root / "pipelines"
            file = first_rows.write_pipeline(self.model, taken.source, folder, self.settings)
            env = first_rows.trial_environment(os.environ, self.settings, root, file)
            places, report = Places(str(root), self.name), StringIO()
            result = self._run(file, commands.RUN, places.result(commands.RUN), env)
            print_trial(self.model, places, report_console(report))
            faults = tuple(commands.trial_faults(self.model, places))

            def rows_of(uri: str) -> pa.Table:
                return dataset_of(TablePlace(uri).existing()).to_table()

            tables = {table: rows_of(places.gold(table)) for table in self.model.tables}
            accepted, rejects = rows_of(places.bronze), rows_of(places.rejects)
            return TrialResult(accepted, rejects, tables, faults, result, report.getvalue())

    def run(self, *, master: str = "local[*]") -> RunResult:
        """Run the pipeline once, and publish what it changed: the command `tidemark run`, in a
        process of its own, with its lease and its result file, which comes back.

        What the command says comes to stderr as it is said. Raises the error of a run that failed,
        and PipelineInvalid where the file or the settings are not what was loaded.
        """
        self._check_unchanged()
        run_id = manual_run_id(datetime.now(UTC))
        uri = Places(self.settings.root, self.name).result(run_id)
        return self._run(self.file, run_id, uri, os.environ, "--master", master)

    def read(
        self,
        table: str,
        *,
        start: Instant | None = None,
        end: Instant | None = None,
        columns: Sequence[str] | None = None,
        final_only: bool = False,
    ) -> pa.Table:
        """The rows of one of its gold tables: `tidemark.read`, under the settings as loaded."""
        from tidemark.gold.reading import read

        return read(
            self.name, table, start=start, end=end, columns=columns, final_only=final_only,
            settings=self.settings,
        )  # fmt: skip

    def _check_unchanged(self) -> None:
        now = load_pipeline(self.file), load_settings(self.settings_file)
        if now != (self.model, self.settings):
            raise PipelineInvalid(
                f"{self.file}, or what settings and TIDEMARK_* variables say, changed since it was "
                "loaded. Nothing was run. Load it again: `tidemark.load(…)`."
            )

    def _run(
        self, file: Path, run_id: str, uri: str, env: Mapping[str, str], *more: str
    ) -> RunResult:
        """The result of the command, which is of this process's group: it ends with a notebook that
        is ended or interrupted."""
        from tidemark.runs.results.result import RunResult
        from tidemark.storage.result_file import read_result

        # -P: no module of the working folder is taken for one of Python's.
        command = [sys.executable, "-P", "-m", "tidemark", "run", str(file), "--run-id", run_id]
        own = ["--settings", str(self.settings_file)] if self.settings_file else []
        told: list[str] = []
        with subprocess.Popen(
            [*command, *own, *more], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    sys.stderr.write(shown(line))
                    told.append(line)
                status = process.wait()
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.communicate()
        with suppress(ResultUnreadable):
            result = read_result(RunResult, uri, self.settings.storage_options)
            if error := result.error:
                message = f"{error.message}\nIt was the run {run_id} of {self.name}."
                raise _named(error.type, message, error.retry_can_help)
            if not status:
                return result
        # What no result could say the command tells last, by the name of its error.
        may_pass = not 0 < status < errors.RETRY
        said = f"{'RunFailed' if may_pass else 'ResultUnreadable'}: {''.join(told[-12:])}"
        *_, kind, message = re.split(r"^([A-Z]\w+): ", said, flags=re.MULTILINE)
        ended = f"`tidemark run {self.name}` ended with exit status {status}, and without a result."
        raise _named(kind, f"{message.strip()}\n{ended}", may_pass)


@dataclass(frozen=True, repr=False, eq=False)
class TrialResult:
    """What came of the first rows: the rows that were accepted (bronze), those that were not, with
    their reasons, and each table's gold.

    `faults` is why `tidemark try` would fail all the same: every row rejected, or a fold that gave
    something else when it was repeated. `report` is what it prints, and is shown of this with them.
    """

    accepted: pa.Table
    rejects: pa.Table
    tables: Mapping[str, pa.Table]
    faults: tuple[str, ...]
    result: RunResult
    report: str

    def __repr__(self) -> str:
        return "\n".join((self.report.strip(), *self.faults))


def load(pipeline: str | Path, *, settings: str | Path | None = None) -> LoadedPipeline:
    """A pipeline by its name or its file's path, checked as `tidemark validate` checks a file.

    `settings` is their file; by default it is found as the command finds it. Raises PipelineInvalid
    with all that is wrong with the file, PipelineNotFound and SettingsInvalid. Whether the tables
    that there are can go on with a changed file, a run tells.
    """
    from tidemark.cli.validate import fold_faults

    settings_file = Path(settings).expanduser().absolute() if settings is not None else None
    loaded = load_settings(settings_file)
    file = find_pipeline_file(str(pipeline), loaded).absolute()
    model = load_pipeline(file)
    check_granted(model, loaded)
    if faults := [*fold_faults(model)]:
        raise PipelineInvalid("\n".join(faults))
    return LoadedPipeline(model, loaded, file, settings_file)


def write(
    content: Mapping[str, Any] | Pipeline | LoadedPipeline, file: str | Path, *,
    replace: bool = False,
) -> Path:  # fmt: skip
    """Write a pipeline's file, which has to be good: all of it, or nothing. Its path comes back.

    `content` is what the file shall say, as a dict of plain values, or a pipeline. Writing the same
    again changes nothing; another file that is there is kept unless it is to be replaced, with its
    comments. Partners of joins and the Python of folds have to be beside it already. Raises
    PipelineInvalid with all that is wrong, and PipelineExists.
    """
    from tidemark.storage.files import FileInTheWay, write_bytes

    path = Path(file).expanduser().absolute()
    model = content.model if isinstance(content, LoadedPipeline) else content
    try:
        plain = json.loads(json.dumps(model.content() if isinstance(model, Pipeline) else model))
    except (TypeError, ValueError) as error:
        raise PipelineInvalid(f"{path} was not written: {error}.") from error
    written = pipeline_from_content(plain, path)
    if isinstance(model, Pipeline) and model != written.model_copy(update={"name": model.name}):
        raise PipelineInvalid(
            f"{path} was not written: there it would mean something else than what was given. Copy "
            "the Python of its folds and the files of its joins' partners there first."
        )
    yaml, out = YAML(), StringIO()
    yaml.width = 1_000_000  # each value on one line, as problems are told by their columns
    yaml.dump(plain, out)
    text = out.getvalue()
    read = parse_document(text, Document(str(path)))
    if read.problems or read.content != plain:
        why = "; ".join(problem.text for problem in read.problems)
        raise PipelineInvalid(f"{path} was not written: YAML cannot say that. {why}")
    try:
        write_bytes(str(path), text.encode(), {}, create_only=not replace)
    except FileInTheWay:
        if path.read_bytes() != text.encode():
            told = f"{path} says something else. Nothing was written; replace=True replaces it."
            raise PipelineExists(told) from None
    return path


def _named(kind: str, message: str, retry_can_help: bool) -> TidemarkError:
    """The error of this name; of one that nobody foresaw, one that says if a retry can help."""
    known = vars(errors).get(kind)
    if isinstance(known, type) and issubclass(known, TidemarkError):
        return known(message)
    return (errors.RunFailed if retry_can_help else TidemarkError)(f"{kind}: {message}")
