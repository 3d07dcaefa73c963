"""`tidemark checkpoint doctor`, for people and as JSON: verdicts and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console

from tidemark.checkpoint.doctor.findings import CheckpointVerdict, Diagnosis, Finding, Severity
from tidemark.cli.console import ReportTable, facts_table

if TYPE_CHECKING:
    from tidemark.runs.losses import Loss

# More findings than these are counted; `--json` holds all.
_SHOWN = 10
_STYLES = {
    Severity.DAMAGE: "bold red",
    Severity.UNKNOWN: "bold yellow",
    Severity.WARNING: "yellow",
    Severity.NOTE: "bold",
}


def print_diagnosis(
    console: Console, name: str, diagnosis: Diagnosis, in_use: bool, facts: Sequence[str]
) -> None:
    """Print the verdict on a checkpoint, what is told of its sources, and its worst findings."""
    console.print(f"\n{name}: {verdict_text(diagnosis)}{'' if in_use else ' (not in use)'}")
    console.print(diagnosis.sentence)
    for line in facts:
        console.print(line)
    for finding in diagnosis.findings[:_SHOWN]:
        console.print(f"\n{finding.severity} · {finding.kind}", style=_STYLES[finding.severity])
        console.print(_finding(finding))
    if len(diagnosis.findings) > _SHOWN:
        console.print(f"\nand {len(diagnosis.findings) - _SHOWN} more findings; --json tells all")


def print_losses(console: Console, losses: Sequence[Loss]) -> None:
    """Print what of a pipeline's tables and checkpoints does not fit what rests on it."""
    console.print("\ntables and checkpoints together: damaged")
    for loss in losses:
        console.print(f"\n{loss.name}", style=_STYLES[Severity.DAMAGE])
        facts = {"known": loss.what, "data at risk": loss.at_most, "what to do": loss.way_out}
        console.print(facts_table(facts))


def verdict_text(diagnosis: Diagnosis) -> str:
    """The verdict in words, with the batch where it has one."""
    killed = diagnosis.verdict is CheckpointVerdict.KILLED
    return f"{diagnosis.verdict} {diagnosis.batch}" if killed else str(diagnosis.verdict)


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, object]:
    """A diagnosis as JSON holds it; of each finding's files, the first ones and their count."""
    return {
        "verdict": str(diagnosis.verdict),
        "batch": diagnosis.batch,
        "sentence": diagnosis.sentence,
        "findings": [asdict(finding) for finding in diagnosis.findings],
    }


def _finding(finding: Finding) -> ReportTable:
    fields = {
        "known": finding.known,
        "the engine": finding.engine,
        "data at risk": finding.at_risk,
        "what to do": finding.advice,
    }
    if finding.files:
        more = finding.count - len(finding.files)
        fields["files"] = "\n".join(finding.files) + (f"\nand {more:,} more" if more else "")
    return facts_table(fields)
