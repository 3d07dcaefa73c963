"""`tidemark new`: look at a sample, propose a pipeline, write its file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.console import facts_table, report_console
from tidemark.cli.new.judged import SampleVerdict, judge_sample
from tidemark.cli.new.pipeline_text import heading, pipeline_text
from tidemark.cli.new.places import find_files
from tidemark.cli.new.proposal import Proposal, propose
from tidemark.cli.new.sample import SourceSample, read_sample
from tidemark.cli.new.tables import sampled_table
from tidemark.cli.new.topics import sampled_topic
from tidemark.cli.options import SettingsFile
from tidemark.errors import PipelineExists, PipelineInvalid, SampleUnusable, TidemarkError
from tidemark.pipeline.granted import check_granted
from tidemark.pipeline.load import ENDINGS, pipeline_from_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import check_folder_name
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.printed import counted
from tidemark.storage.files import FileInTheWay, write_bytes

KINDS: dict[str, Callable[[str, Settings, str], SourceSample]] = {
    "kafka:": sampled_topic,
    "delta:": sampled_table,
}


def find_sample(given: str, settings: Settings, pipeline: str) -> SourceSample:
    """What `--from` names, looked at. SampleUnusable where it is nothing, and the errors of a
    source that cannot be asked; each says that nothing was written."""
    prefix = next((one for one in KINDS if given.startswith(one)), None)
    if prefix is None:
        places = find_files(given, settings, pipeline)
        sample = read_sample(places.read, settings)
        reasons = sample.reasons
        if places.others > 0:
            reasons += (f"`{places.source}` takes {counted(places.others, 'other file')} too.",)
        return SourceSample({"files": places.source, **sample.entries}, sample, reasons)
    try:
        return KINDS[prefix](given.removeprefix(prefix), settings, pipeline)
    except TidemarkError as error:
        raise type(error)(f"--from {given}: {error} Nothing was written.") from error


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The pipeline's name, and its file's.")
    ],
    sample: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="JSON, CSV, Parquet or Avro: a file, a pattern in quotes, or a URI of either. A "
            "topic: kafka:CONNECTION/TOPIC. A Delta table: delta:URI, or delta:PATH, from the root "
            "or from here.",
        ),
    ],
    event_time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", show_default=False, help="Default: what looks most like it."
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            "--key",
            metavar="COLUMN,…",
            show_default=False,
            help="Default: up to two of few values.",
        ),
    ] = None,
    unique_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", show_default=False, help="Default: an id that tells rows apart."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="Default: by its windows."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Write a pipeline's file, proposed from a sample of its rows.

    Looks at the first 10,000 lines, messages or rows. The file goes into the settings' folder of
    pipelines, with the reason for each choice beside it: a proposal to be read and corrected. Runs
    nothing.
    """
    loaded = load_settings(settings)
    _check_name(name, "pipeline")
    file = _file(name, loaded)
    found = find_sample(sample, loaded, name)
    keys = None if group_by is None else [key.strip() for key in group_by.split(",")]
    if table is not None:
        _check_name(table, "table")
    proposal = propose(found.sample, event_time, keys, unique_by, table)
    origin = f"{found.sample.label} of {sample}"
    text = pipeline_text(proposal, found.source, found.reasons)
    if proposal.event_time is None:
        _write(file, heading(origin, None) + text, force)
        _tell_what_is_open(name, proposal, found, file)
        return
    pipeline = pipeline_from_text(name, text, str(file))
    verdict = judge_sample(pipeline, found.sample, loaded, datetime.now(UTC))
    _write(file, heading(origin, verdict) + text, force)
    _tell(pipeline, proposal, found, verdict, file)
    try:
        check_granted(pipeline, loaded)
    except PipelineInvalid as error:
        print(f"No run reads it yet. {error}")


def _check_name(name: str, of: str) -> None:
    try:
        check_folder_name(name, of)
    except ValueError as error:
        raise SampleUnusable(f"`{name}` {error}. Nothing was written.") from None


def _file(name: str, settings: Settings) -> Path:
    """Where the file goes. PipelineExists where the pipeline has one of the other ending."""
    folder = settings.pipelines_folder
    file, *twins = [folder / f"{name}{ending}" for ending in ENDINGS]
    for other in twins:
        if other.exists():
            raise PipelineExists(
                f"{other} is this pipeline's file already. Nothing was written. Take another name, "
                "or remove it first."
            )
    return file


def _write(file: Path, text: str, force: bool) -> None:
    """All of the file or nothing; one that exists, or is just being made, only with force."""
    try:
        write_bytes(str(file), text.encode(), {}, create_only=not force)
    except FileInTheWay:
        raise PipelineExists(
            f"{file} exists. Nothing was written. Take another name, or replace it with --force."
        ) from None


def _tell(
    pipeline: Pipeline, proposal: Proposal, found: SourceSample, verdict: SampleVerdict, file: Path
) -> None:
    console, sample = report_console(), found.sample
    console.print(f"{pipeline.name}: proposed from {sample.label}. A run {verdict.label}.")
    console.print(facts_table(proposed_facts(pipeline, proposal, found)))
    for reason in found.reasons:
        console.print(reason)
    for reason, (number, detail) in verdict.rejected.items():
        console.print(f"{reason}: {counted(number, sample.row)}, the first: {detail}")
    if verdict.repeated:
        repeated = counted(verdict.repeated, "row")
        console.print(f"With an id that an earlier one has: {repeated}; `tidemark try` tells more.")
    console.print(f"Written: {file}")
    console.print(
        f"Read it and correct it, then:\n"
        f"  tidemark try {pipeline.name}   # its first rows, below a root that is removed again\n"
        f"  tidemark run {pipeline.name}   # for good"
    )


def _tell_what_is_open(name: str, proposal: Proposal, found: SourceSample, file: Path) -> None:
    console = report_console()
    console.print(f"{name}: proposed from {found.sample.label}, without an event time.")
    console.print(proposal.no_time)
    console.print(f"Columns: {', '.join(column.name for column in proposal.columns)}")
    for reason in found.reasons:
        console.print(reason)
    console.print(f"Written: {file}")
    console.print(
        f"Name the column in its line `event_time`, and its format if it has another one, then:\n"
        f"  tidemark validate {name}\n"
        f"Or name one that can be it: tidemark new {name} --event-time COLUMN --force --from …"
    )


def proposed_facts(pipeline: Pipeline, proposal: Proposal, found: SourceSample) -> dict[str, str]:
    """What a pipeline was proposed to be, by its name for people."""
    table = pipeline.tables[proposal.table]
    keys = f"by {', '.join(table.group_by)}: " if table.group_by else ""
    numbers = {
        key: entry if isinstance(entry, str) else ", ".join(f"{k} {v}" for k, v in entry.items())
        for key, entry in found.source.items()
    }
    numbers["columns"] = ", ".join(pipeline.source.columns)
    if proposal.left_out:
        numbers["in _extra"] = ", ".join(one.name for one in proposal.left_out)
    time, written = proposal.event_time, proposal.time_format
    assert time is not None
    assert written is not None
    assumed = 100 * written.without_zone // max(1, written.fitting)
    zone = f" ({written.zone} assumed for {assumed} %)" if written.zone else ""
    numbers["event time"] = f"{time.name}{zone}"
    numbers["unique by"] = proposal.unique.column.name if proposal.unique else "–"
    return numbers | {proposal.table: f"{keys}{', '.join(table.measures)}"}
