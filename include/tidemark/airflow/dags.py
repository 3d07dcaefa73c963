"""Dags from pipeline files, six each: stream, backfill, migration, rewind, retraction and
maintenance. Parsed without loading any engine."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from airflow.sdk import DAG, get_parsing_context

from tidemark.airflow.alerts import Alert, Callback, as_callbacks
from tidemark.airflow.maintenance import maintenance_dag
from tidemark.airflow.recompute import recompute_dags
from tidemark.airflow.shared import shared_dag
from tidemark.airflow.stream import RUN_TYPES
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.airflow.tasks import pipeline_tasks, settings_of, task_defaults
from tidemark.airflow.watcher import WATCHER, WatcherOperator
from tidemark.errors import PipelineInvalid, PipelineNotFound
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.load import load_pipeline, load_pipelines, pipeline_files, unread_below
from tidemark.pipeline.model import Pipeline, Table, Watermark
from tidemark.pipeline.names import (
    BACKFILL_SUFFIX,
    DAG_SUFFIXES,
    SHARED_PREFIX,
)
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings, load_settings

# A run picks up everything that is new, so missed schedules are never made up for (no catchup),
# and any date in the past will do.
START = datetime(2026, 1, 1, tzinfo=UTC)
_LOG = logging.getLogger(__name__)
# Of the ids of a pipeline's Dags.
_SUFFIXES = ("", *DAG_SUFFIXES)
# Who is told of a failure, and who of a recovery.
_Told = tuple[tuple[Callback, ...], tuple[Callback, ...]]


def pipeline_dags(
    folder: str | Path | None = None,
    conn_id: str = "spark_default",
    default_args: Mapping[str, Any] | None = None,
    settings: str | Path | None = None,
    on_failure: Callback | Sequence[Callback] | None = None,
    on_recovery: Callback | Sequence[Callback] | None = None,
    root: str | Path | None = None,
    session: Literal["own", "shared"] = "own",
    shared_name: str = "",
) -> dict[str, DAG]:
    """Six Dags for each valid pipeline file, by their ids: the stream, whose id is the pipeline's
    name, `NAME__backfill`, `NAME__migrate`, `NAME__rewind` and `NAME__retract`, which are started
    by hand, and `NAME__maintenance`, which runs once a day.

    `folder` holds the files; without it, the settings' folder of pipelines. `settings` is the
    settings file; without it, the one that `load_settings` finds, also when a task runs. `root`
    goes before the settings' root: with a folder and a root, no settings are needed.
    `default_args` go before the defaults here, a pipeline's `owner` before both.

    `on_failure` is called when a run of a stream failed, `on_recovery` when one succeeded after one
    that failed: Airflow notifiers, or functions of Airflow's context. The context has the run's
    facts as `tidemark` (`RunFacts`). They are called by the Dag processor.

    With `session="shared"` pipelines of one schedule run in one Dag, with one start of Spark
    (`shared_dag_id`); the stream of each has no schedule then, and runs by hand. A pipeline without
    a schedule is in none. Where an Airflow has several such calls, `shared_name` tells their Dags
    apart: it goes into the ids.

    An invalid file is left out here, and `raise_invalid_pipelines` tells of it. A valid file of
    which no Dag can be made is left out too; the Dag processor's log tells why. What leaves none
    of the files a Dag is raised, so that Airflow shows it: SettingsInvalid for unusable settings,
    no root or a relative one, PipelineNotFound for a folder that is not there or whose files all
    lie in folders below, PipelineInvalid where no file is valid. An empty folder gives no Dag.
    """
    if session not in ("own", "shared"):
        raise ValueError(f'session={session!r} is none: "own", or "shared"')
    used = load_settings(settings, root=root)
    arguments = {**task_defaults(used), **(default_args or {})}
    task = {"conn_id": conn_id, **settings_of(settings, root, used)}
    alerts = (as_callbacks(on_failure), as_callbacks(on_recovery))
    made: list[DAG] = []
    place = existing_folder(folder or used.pipelines_folder)
    valid = list(_valid_pipelines(place))
    wanted = get_parsing_context().dag_id
    if not valid and wanted is None:
        raise_invalid_pipelines(place)
    sharing: dict[str, dict[str, Pipeline]] = {}
    for path, pipeline in valid:
        try:
            own = {"pipeline_file": str(path), **task}
            shared = pipeline.schedule if session == "shared" else None
            schedule = None if shared else pipeline.schedule
            made += _dags_of(pipeline, schedule, used, arguments, own, alerts)
            if shared:
                sharing.setdefault(" ".join(shared.split()), {})[str(path)] = pipeline
        except Exception:  # noqa: BLE001  one file does not take the others out, whatever it is
            _LOG.exception("No Dag could be made of %s", path)
    for schedule, pipelines in sharing.items():
        failures, recoveries = (
            [_alert(then, one, task) for one in pipelines.values()] if then else []
            for then in alerts
        )
        told, common = (failures, recoveries), _common_arguments(arguments)
        made.append(shared_dag(pipelines, used, task, told, schedule, common, shared_name))
    return {dag.dag_id: dag for dag in made if wanted in (None, dag.dag_id)}


def _valid_pipelines(folder: Path) -> Iterator[tuple[Path, Pipeline]]:
    # A task's process parses the Dag file as well, and needs one Dag of it; of a shared one the
    # group of its pipeline.
    wanted, task = get_parsing_context()
    shared = wanted is not None and wanted.startswith(SHARED_PREFIX)
    group, _, of_group = (task or "").partition(".")
    for path in pipeline_files(folder):
        named = wanted in (None, *(f"{path.stem}{suffix}" for suffix in _SUFFIXES))
        if named or (shared and (not of_group or group == path.stem)):
            try:
                yield path, load_pipeline(path)
            except PipelineInvalid:
                continue


def _dags_of(
    pipeline: Pipeline,
    schedule: str | None,
    settings: Settings,
    default_args: Mapping[str, Any],
    task: dict[str, Any],
    alerts: _Told,
) -> tuple[DAG, ...]:
    owner = {"owner": pipeline.owner} if pipeline.owner else {}
    arguments = _common_arguments({**default_args, **owner})
    files = {name: value for name, value in task.items() if name != "conn_id"}
    places = Places(settings.root, pipeline.name)
    return (
        _stream_dag(pipeline, schedule, places, arguments, task, alerts),
        *recompute_dags(pipeline, places, arguments, task),
        maintenance_dag(pipeline, settings.maintenance, arguments, files),
    )


def _common_arguments(default_args: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "start_date": START,
        "catchup": False,
        "max_active_runs": 1,
        "default_args": dict(default_args),
        "tags": ["tidemark"],
    }


def _stream_dag(
    pipeline: Pipeline,
    schedule: str | None,
    places: Places,
    dag_arguments: dict[str, Any],
    task: dict[str, Any],
    alerts: _Told,
) -> DAG:
    on_failure, on_recovery = (_alert(then, pipeline, task) if then else None for then in alerts)
    with DAG(
        dag_id=pipeline.name,
        description=pipeline.description,
        doc_md=describe(pipeline, places),
        schedule=schedule,
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        on_failure_callback=on_failure.failed if on_failure else None,
        on_success_callback=on_recovery.recovered if on_recovery else None,
        **dag_arguments,
    ) as dag:
        tasks = pipeline_tasks(pipeline, places, **task, skipped_when_idle=True)
        tasks >> WatcherOperator(task_id=WATCHER, doc_md=TASK_DOCS[WATCHER])
    return dag


def _alert(then: tuple[Callback, ...], pipeline: Pipeline, task: dict[str, Any]) -> Alert:
    return Alert(then, pipeline.name, task["settings_file"], task["root"])


def raise_invalid_pipelines(
    folder: str | Path | None = None, settings: str | Path | None = None
) -> None:
    """Raise one error that lists every invalid pipeline file; return when all are valid. So the Dag
    processor shows it as one import error, and the good pipelines' Dags stay.

    `folder` and `settings` as in `pipeline_dags`; a folder that is given needs no settings.
    SettingsInvalid when the settings cannot be used, PipelineNotFound when there is no such
    folder or its files all lie in folders below, PipelineInvalid for invalid files.
    """
    place = existing_folder(folder or load_settings(settings).pipelines_folder)
    valid, invalid = load_pipelines(place)
    if invalid:
        count = f"{len(invalid)} of {len(valid) + len(invalid)} pipeline files in {place}"
        head = f"{count} cannot be used and have no Dag; the others are not affected."
        raise PipelineInvalid("\n\n".join([head, *(str(error) for error in invalid)]))
    if not valid and (below := unread_below(place)):
        raise PipelineNotFound(f"The folder {place} holds no pipeline file{below}.")


def existing_folder(folder: str | Path) -> Path:
    """The folder of pipeline files, absolute; PipelineNotFound where it is not there."""
    place = Path(folder).absolute()
    if not place.is_dir():
        raise PipelineNotFound(
            f"There is no folder {place} of pipeline files, so no Dag was made of any. Make it, "
            "or name the right one: as an argument, as `pipelines` in the settings file or as "
            "TIDEMARK_PIPELINES."
        )
    return place


# ASCII's punctuation: with a backslash before it, Markdown takes each for itself.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def describe(pipeline: Pipeline, places: Places) -> str:
    """Source, watermark and tables of a pipeline, in Markdown; what it leaves out is not said. What
    its file says is text there, never Markdown or HTML."""
    source = pipeline.source
    rows = [
        row
        for name, table in pipeline.tables.items()
        for row in (_row(name, table, places), *_views(name, table, places))
    ]
    return "\n".join(
        [
            _text(pipeline.description or pipeline.name),
            "",
            f"- **source**: {_code(source.label)}, event time {_code(source.event_time.column)}",
            f"- **watermark**: {_watermark(pipeline.watermark)}",
            *_choices(pipeline),
            f"- **accepted rows**: {_code(places.bronze)}",
            f"- **rejected rows**: {_code(places.rejects)}",
            "",
            "| table | windows | keys | measures | gold |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *_BACKFILLS.format(dag=f"{pipeline.name}{BACKFILL_SUFFIX}").splitlines(),
        ]
    )


_BACKFILLS = """\
Airflow's own backfills are not allowed here: a run reads whatever is new, so a run for a date gone
by would not compute that date again. The Dag `{dag}` does: closed windows of a range, again from
the accepted rows.\
"""


def _watermark(watermark: Watermark) -> str:
    delay = f"delay {duration_text(watermark.delay)}"
    if watermark.seal_after_idle is None:
        return delay
    idle = duration_text(watermark.seal_after_idle)
    return f"{delay}; the last windows are sealed after {idle} without a row"


def _choices(pipeline: Pipeline) -> Iterator[str]:
    """A line for each key that changes which rows count and which windows come out."""
    if unique := pipeline.source.unique:
        within = duration_text(unique.within)
        yield f"- **unique**: {_code(unique.by)} within {within}; rows that repeat it are rejected"
    if pipeline.keep is not None:
        keep = duration_text(pipeline.keep)
        yield f"- **keep**: {keep}; older rows are rejected, older windows are frozen"
    if pipeline.keep_rejects is not None:
        yield f"- **keep rejects**: {duration_text(pipeline.keep_rejects)}; maintenance drops older"
    modes = {name: table.output_mode for name, table in pipeline.tables.items()}
    if others := [f"{_text(name)} {mode}" for name, mode in modes.items() if mode != "update"]:
        yield f"- **output mode**: {', '.join(others)}"
    kept = {
        name: table.unbounded or ", ".join(pipeline.lookups_of(name))
        for name, table in pipeline.tables.items()
    }
    if computed := [f"{_text(name)}, for {_text(one)}" for name, one in kept.items() if one]:
        yield f"- **computed from bronze in each run**: {'; '.join(computed)}"


def _row(name: str, table: Table, places: Places) -> str:
    measures = ", ".join(
        f"{_text(measure)} = {_code_in_cell(sql)}" for measure, sql in table.columns_told.items()
    )
    keys = ", ".join(_text(key) for key in table.group_by)
    gold = _code_in_cell(places.gold(name))
    where = "" if table.where is None else f", where {_code_in_cell(table.where)}"
    rows = f"{_text(table.rows_are)}{where}"
    return f"| {' | '.join((_text(name), rows, keys, measures, gold))} |"


def _views(name: str, table: Table, places: Places) -> Iterator[str]:
    """A row for each view of a table."""
    for of, view in table.views.items():
        said = [] if view.having is None else [f"those with {_code_in_cell(view.having)}"]
        if view.top is not None:
            said.append(f"{view.top.n} of each window by {_text(view.top.by)}, {view.top.order}")
        place = _code_in_cell(places.view(name, of))
        yield f"| {_text(f'{name}.{of}')} | {'; '.join(said)} | | | {place} |"


def _text(text: str) -> str:
    """On one line, each character as itself."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """On one line, between more backticks than it has together itself: SQL quotes names by them."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " * ("`" in (line[:1], line[-1:]))
    return f"{fence}{space}{line}{space}{fence}"


def _code_in_cell(text: str) -> str:
    """Without ending the cell, which a bar of the code would. One that has backslashes before it,
    as in a pattern, is shown with twice as many."""
    return re.sub(r"(\\*)\|", lambda bar: rf"{bar[1] * 2}\|", _code(text))
