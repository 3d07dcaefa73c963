"""Read the checkpoints that were asked for, and print what they hold or in what state they are."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from rich.text import Text

from tidemark.checkpoint.doctor.findings import CheckpointVerdict, Diagnosis
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.reading.source_offsets import KafkaOffset, PlannedTopics, PlannedVersions
from tidemark.cli.checkpoint.doctor_report import diagnosis_json, print_diagnosis, print_losses
from tidemark.cli.checkpoint.inspect_report import print_checkpoint_overview
from tidemark.cli.checkpoint.overview import overview
from tidemark.cli.checkpoint.targets import CheckpointTarget, CheckpointTargets
from tidemark.cli.console import print_documents, progress_console, report_console
from tidemark.cli.exit_codes import VERDICTS
from tidemark.cli.lag_text import lag_text
from tidemark.pipeline.places import INGEST
from tidemark.printed import shown

_TOGETHER = "tables and checkpoints together"


def show_overviews(targets: CheckpointTargets, in_json: bool) -> None:
    """Print what each checkpoint holds."""
    console = report_console()
    documents: list[dict[str, object]] = []
    for target in targets.checkpoints:
        facts = read_target(target, targets)
        newest = target.known.newest_event_ms, target.newest_version
        found = None if facts is None else overview(facts, *newest)
        if in_json:
            documents.append(head(target) | ({} if found is None else found.as_json()))
        elif found is None:
            console.print(f"\n{target.name}: no query has started yet")
        else:
            print_checkpoint_overview(console, target.name, found)
    if in_json:
        print_documents(documents)


def show_diagnoses(targets: CheckpointTargets, in_json: bool) -> int:
    """Print the verdict on each checkpoint, and on what of a pipeline does not fit together; the
    exit code is the largest of those in use."""
    console = report_console()
    documents: list[dict[str, object]] = []
    code = 0
    for target in targets.checkpoints:
        facts = read_target(target, targets)
        diagnosis = _diagnosis(target, facts)
        ends, lag = _ends(facts), targets.ask_lag() if target.name == INGEST else None
        if target.in_use:
            code = max(code, VERDICTS[diagnosis.verdict])
        if in_json:
            told = {"sources": ends, "lag": None if lag is None else asdict(lag)}
            documents.append(head(target) | diagnosis_json(diagnosis) | told)
        else:
            lines = [*ends, *([] if lag is None else [lag_text(lag)])]
            print_diagnosis(console, target.name, diagnosis, target.in_use, lines)
    if targets.losses:
        code = max(code, VERDICTS[CheckpointVerdict.DAMAGED])
        if in_json:
            documents.append({"name": _TOGETHER, "losses": [one.facts for one in targets.losses]})
        else:
            print_losses(console, targets.losses)
    if in_json:
        print_documents(documents)
    return code


def _diagnosis(target: CheckpointTarget, facts: CheckpointFacts | None) -> Diagnosis:
    if facts is None:
        return Diagnosis(CheckpointVerdict.NEW, 0, "No query has started here yet.", ())
    return judge_checkpoint(facts, datetime.now(UTC), target.known)


def _ends(facts: CheckpointFacts | None) -> list[str]:
    """Up to where topics and tables that an ingest plans by itself are read, or are being read."""
    return [
        f"Its batches are planned up to: {source.offset.summary}."
        for source in (facts.sources if facts else ())
        if isinstance(source.offset, KafkaOffset | PlannedTopics | PlannedVersions)
    ]


def read_target(target: CheckpointTarget, targets: CheckpointTargets) -> CheckpointFacts | None:
    """The facts; None for a checkpoint of a pipeline that no query has begun."""
    if targets.pipeline is not None and not target.place.names():
        return None
    progress, name = progress_console(), shown(target.name)
    if not progress.is_terminal:
        return read_checkpoint(target.place)
    with progress.status(Text(f"{name}: listing")) as status:
        return read_checkpoint(
            target.place,
            on_listed=lambda files: status.update(Text(f"{name}: {files:,} files; reading")),
        )


def head(target: CheckpointTarget) -> dict[str, object]:
    """With what the document of a checkpoint begins, whatever is told of it."""
    return {"name": target.name, "in_use": target.in_use, "uri": target.place.uri}
