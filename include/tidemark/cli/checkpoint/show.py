"""Read the checkpoints that were asked for, and print what they hold or in what state they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from tidemark.checkpoint.doctor.findings import CheckpointVerdict, Diagnosis
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.doctor.watermark import watermark_ms
from tidemark.checkpoint.reading.facts import (
    CheckpointFacts,
    CheckpointSource,
    StatefulOperator,
    Unreadable,
)
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.reading.source_offsets import (
    DeltaOffset,
    KafkaOffset,
    PlannedTopics,
    PlannedVersions,
)
from tidemark.cli.checkpoint.doctor_report import diagnosis_json, print_diagnosis, print_losses
from tidemark.cli.checkpoint.targets import CheckpointTarget, CheckpointTargets
from tidemark.cli.console import (
    ReportTable,
    facts_table,
    print_documents,
    progress_console,
    report_console,
    report_table,
    shortened,
)
from tidemark.cli.exit_codes import VERDICTS
from tidemark.pipeline.instants import instant_text, length_of
from tidemark.pipeline.places import INGEST
from tidemark.printed import shown
from tidemark.runs.status.lag_text import lag_text

_NOTHING = "–"
_BAR = 24
# Of more sources, operators, stores or partitions the first, or the worst; `--json` holds all.
SHOWN = 10
_LONGEST_OFFSET = 200
_TOGETHER = "tables and checkpoints together"


def print_checkpoint_overview(console: Console, name: str, overview: Overview) -> None:
    """Print what a checkpoint holds: batches, watermark, sources, state, files."""
    console.print(f"\n{name}: {overview.uri}" if name != overview.uri else f"\n{name}")
    console.print(_summary(overview))
    if overview.sources:
        console.print(_sources(overview))
    if overview.operators:
        console.print(_operators(overview))
    console.print(_files(overview))


def _summary(overview: Overview) -> ReportTable:
    facts = {"query": overview.query_id or _NOTHING}
    facts |= {log: _batches(batches) for log, batches in overview.batches.items()}
    facts["next batch"] = f"{overview.next_batch:,}"
    if overview.batch_time_ms is not None:
        facts["time of the last batch"] = instant_text(overview.batch_time_ms)
    facts["watermark"] = _watermark(overview)
    partitions = overview.conf.get("spark.sql.shuffle.partitions")
    if partitions and overview.operators:
        facts["recorded partitions"] = partitions
    return facts_table(facts)


def _batches(batches: tuple[int, int, int] | None) -> str:
    if batches is None:
        return _NOTHING
    first, last, count = batches
    gaps = "" if count == last - first + 1 else f" ({count:,} files, so with gaps)"
    return f"{first:,} to {last:,}{gaps}"


def _watermark(overview: Overview) -> str:
    if overview.watermark_ms is None:
        return "none yet"
    watermark, said = overview.watermark_ms, instant_text(overview.watermark_ms)
    others = {"last batch's time": overview.batch_time_ms, "newest event": overview.newest_event_ms}
    for name, other in others.items():
        if other is not None:
            apart = length_of(abs(other - watermark) // 1000 * 1000)
            said += f"; {apart} {'before' if watermark <= other else 'AFTER'} the {name}"
    return said


def _sources(overview: Overview) -> ReportTable:
    table = report_table("source", "kind", "~ends at", "behind", "lists of files")
    for one in overview.sources[:SHOWN]:
        lists = f"{one.lists:,}" if one.lists or one.compacted else _NOTHING
        table.add_row(
            one.id,
            one.kind,
            shortened(one.offset or "no offset yet", _LONGEST_OFFSET),
            _NOTHING if one.behind is None else f"{one.behind:,} versions",
            f"{lists} and {one.compacted:,} compacted" if one.compacted else lists,
        )
    and_more(table, len(overview.sources))
    return table


def _operators(overview: Overview) -> ReportTable:
    columns = ("operator", "name", "partitions", "stores", "state store", "newest version")
    table = report_table(*columns, ">bytes")
    for one in overview.operators[:SHOWN]:
        low, high = one.newest_versions
        table.add_row(
            str(one.id),
            one.name or _NOTHING,
            f"{one.partitions:,}",
            ", ".join(one.stores),
            one.provider,
            str(high) if low == high else f"{low} to {high}",
            f"{one.size:,}",
        )
    and_more(table, len(overview.operators))
    return table


def _files(overview: Overview) -> ReportTable:
    table = report_table("files of", ">files", ">bytes", "share of the files")
    total = max(1, sum(section["files"] for section in overview.sections.values()))
    ordered = sorted(overview.sections.items(), key=lambda item: -item[1]["files"])
    for kind, section in ordered:
        table.add_row(
            kind, f"{section['files']:,}", f"{section['bytes']:,}", _bar(section["files"] / total)
        )
    return table


def _bar(share: float) -> str:
    return "█" * round(share * _BAR) or "▏"


def and_more(table: ReportTable, count: int) -> None:
    """A row that says how many are not shown."""
    if count > SHOWN:
        table.add_row("…", f"{count - SHOWN:,} more")


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
            fields = {"sources": ends, "lag": None if lag is None else asdict(lag)}
            documents.append(head(target) | diagnosis_json(diagnosis) | fields)
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


@dataclass(frozen=True)
class SourceLine:
    """A source: its offset as text, and how many lists of files its folder holds.

    `behind`: the versions of its Delta table that no batch has taken; None where not known.
    """

    id: str
    kind: str
    offset: str | None
    initial: str | None
    lists: int
    compacted: int
    behind: int | None


@dataclass(frozen=True)
class OperatorLine:
    """A stateful operator. Versions are those that its stores' files reach, lowest and highest."""

    id: int
    name: str | None
    partitions: int
    stores: tuple[str, ...]
    provider: str
    newest_versions: tuple[int, int]
    columns: Mapping[str, str]
    files: int
    size: int


@dataclass(frozen=True)
class Overview:
    """A checkpoint on one screen. Times are milliseconds since 1970, UTC; None for none."""

    uri: str
    query_id: str | None
    batches: Mapping[str, tuple[int, int, int] | None]
    next_batch: int
    watermark_ms: int | None
    batch_time_ms: int | None
    newest_event_ms: int | None
    conf: Mapping[str, str]
    sources: tuple[SourceLine, ...]
    operators: tuple[OperatorLine, ...]
    sections: Mapping[str, Mapping[str, int]]

    def as_json(self) -> dict[str, object]:
        """The summary, with times as text beside the numbers."""
        facts = asdict(self)
        for name in ("watermark", "batch_time", "newest_event"):
            value = facts[f"{name}_ms"]
            facts[name] = None if value is None else instant_text(value)
        return facts


def overview(
    facts: CheckpointFacts, newest_event_ms: int | None, newest_version: int | None = None
) -> Overview:
    """The summary of a checkpoint that was read, with what is known of the table it reads."""
    newest = facts.offsets.entry(facts.offsets.newest)
    query_id = facts.query_id
    return Overview(
        facts.uri,
        None if isinstance(query_id, Unreadable) else query_id,
        {
            # The oldest and the newest batch, and how many have a file.
            log.name: (log.batches[0], log.batches[-1], len(log.batches)) if log.batches else None
            for log in (facts.offsets, facts.commits)
        },
        facts.next_batch,
        watermark_ms(facts) or None,
        newest.batch_time_ms if newest else None,
        newest_event_ms,
        facts.conf,
        tuple(_source(source, newest_version) for source in facts.sources),
        tuple(_operator(operator) for operator in facts.operators),
        {kind: {"files": one.files, "bytes": one.size} for kind, one in facts.sections.items()},
    )


def _source(source: CheckpointSource, newest_version: int | None) -> SourceLine:
    lists = source.file_list
    return SourceLine(
        source.id,
        source.kind,
        source.offset.summary if source.offset else None,
        source.initial,
        len(lists.lists) if lists else 0,
        len(lists.compacted) if lists else 0,
        _behind(source, newest_version),
    )


def _behind(source: CheckpointSource, newest_version: int | None) -> int | None:
    if newest_version is None or not isinstance(source.offset, DeltaOffset):
        return None
    return max(0, newest_version + 1 - source.offset.version)


def _operator(operator: StatefulOperator) -> OperatorLine:
    files = [f for store in operator.stores for found in store.files.values() for f in found]
    newest = [store.newest for store in operator.stores]
    shared = sum(sum(store.shared.values()) for store in operator.stores)
    return OperatorLine(
        operator.id,
        operator.metadata.name if operator.metadata else None,
        len(operator.partitions),
        operator.store_names,
        ", ".join(sorted({str(store.provider) for store in operator.stores})),
        (min(newest, default=0), max(newest, default=0)),
        {
            name: f"{', '.join(schema.key)} → {', '.join(schema.value)}"
            for name, schema in operator.schemas.items()
            if schema.key
        },
        len(files) + sum(len(store.shared) for store in operator.stores),
        sum(file.size for file in files) + shared,
    )
