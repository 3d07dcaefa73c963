"""Arguments that several commands share, and the places that they name."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from pydantic import ValidationError

from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.pipeline.source_files import is_uri
from tidemark.runs.acceptance import CheckOverride, acceptance, as_utf8, check_may
from tidemark.runs.requests import Instant, PipelineRequest, fault_of, flags
from tidemark.storage.duckdb_bounds import bound_memory

PipelineName = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="Its name, or the path of its file.")
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        show_default=False,
        help="Default: $TIDEMARK_SETTINGS, else include/settings.yaml here or in a folder above.",
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Do it; without, only say what.")]
ApplyPlan = Annotated[
    bool, typer.Option("--apply", help="Do what the plan says; else nothing is changed.")
]
ResultInJson = Annotated[bool, typer.Option("--json", help="The result as JSON.")]
Master = Annotated[str, typer.Option(metavar="MASTER", help="Spark's master.")]


def asked_pipeline(
    pipeline: str, settings: Path | None, master: str | None = None
) -> tuple[Pipeline, Settings]:
    """The pipeline that is named, and the settings; they have to allow Spark's master, if asked."""
    loaded = load_settings(settings)
    bound_memory(loaded.duckdb)
    found = find_pipeline(pipeline, loaded)
    if master is not None:
        check_master(loaded, master, "--master")
    return found, loaded


def asked_acceptance(
    accept: bool, reason: str | None, by: str | None, settings: Path | None
) -> tuple[CheckOverride | None, Settings]:
    """Who accepts, and why, where that is asked; and the settings, which have to allow it."""
    try:
        given = acceptance(accept, reason, by)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    loaded = load_settings(settings)
    bound_memory(loaded.duckdb)
    if given:
        check_may(loaded, "accept", given.by)
    return given, loaded


def absolute(place: str) -> str:
    """A place as the file interface takes it: an absolute path without `..`, or a URI as it is.
    Links are not followed: what lies beside a place lies beside its name."""
    return place if is_uri(place) else os.path.abspath(Path(place).expanduser())  # noqa: PTH100


def check_table(pipeline: Pipeline, table: str | None) -> None:
    """BadParameter where a pipeline has no such table."""
    if table is not None and table not in pipeline.tables:
        raise typer.BadParameter(
            f"{table} is no table of {pipeline.name}, which has {', '.join(pipeline.tables)}",
            param_hint="--table",
        )


def instant(text: str) -> datetime:
    """`utc_instant` as an option's parser: typer would repeat the text, and not the reason."""
    try:
        return utc_instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def kept_text(text: str) -> str:
    """`as_utf8` as an option's parser."""
    try:
        return as_utf8(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def asks(
    kind: type[PipelineRequest], *left_out: str, arguments: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of a pipeline whose options are what a job's request asks, but `left_out`, which
    the command fills itself; `arguments` of them have no option's name.

    The command takes the request first; its other parameters are options and arguments of its own.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = list(signature(command, eval_str=True).parameters.values())[1:]
        asked = list(_options(kind, (*left_out, *_SET_BY_COMMANDS), arguments))

        @wraps(command)
        def called(**given: Any) -> None:
            mine = {one.name: given.pop(one.name) for one in own}
            try:
                request = kind(**{name: of for name, of in given.items() if of is not None})
            except ValidationError as error:
                raise typer.BadParameter(fault_of(error)) from error
            command(request, **mine)

        named = Parameter("pipeline", Parameter.KEYWORD_ONLY, annotation=PipelineName)
        file = Parameter("settings", Parameter.KEYWORD_ONLY, annotation=SettingsFile, default=None)
        mine = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in own]
        called.__signature__ = signature(command).replace(  # type: ignore[attr-defined]
            parameters=[named, *asked, *mine, file]
        )
        return called

    return decorated


# Of a request, what a command does not ask by an option that is made of it.
_SET_BY_COMMANDS = ("pipeline", "settings", "root", "run_id", "result", "dag")


def _options(
    kind: type[PipelineRequest], left_out: Sequence[str], arguments: Sequence[str]
) -> Iterator[Parameter]:
    types = get_type_hints(kind, include_extras=True)
    for name, flag, field in flags(kind):
        if name in left_out:
            continue
        of, default = types[name], field.get_default()
        settings: dict[str, Any] = {"help": field.description, "show_default": bool(default)}
        # A choice is shown by its values.
        if of is not bool and not any(get_origin(one) is Literal for one in get_args(of)):
            settings["metavar"] = flag.removeprefix("--").upper()
        if of in (Instant, Instant | None):
            settings |= {"parser": instant, "metavar": "TIME"}
            of = datetime if field.is_required() else datetime | None
        elif default == ():
            of, default = list[str] | None, None
        option = typer.Argument(**settings) if name in arguments else typer.Option(flag, **settings)
        yield Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            annotation=Annotated[of, option],
            default=Parameter.empty if field.is_required() else default,
        )
