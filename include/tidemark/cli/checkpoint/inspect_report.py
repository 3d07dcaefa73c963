"""`tidemark checkpoint inspect`, for people: one screen."""

from __future__ import annotations

from rich.console import Console

from tidemark.cli.checkpoint.overview import Overview
from tidemark.cli.console import ReportTable, facts_table, report_table, shortened
from tidemark.pipeline.instants import instant_text, length_of

_NOTHING = "–"
_BAR = 24
_SHOWN = 10
_LONGEST_OFFSET = 200


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
    told = {"query": overview.query_id or _NOTHING}
    told |= {log: _batches(batches) for log, batches in overview.batches.items()}
    told["next batch"] = f"{overview.next_batch:,}"
    if overview.batch_time_ms is not None:
        told["time of the last batch"] = instant_text(overview.batch_time_ms)
    told["watermark"] = _watermark(overview)
    partitions = overview.conf.get("spark.sql.shuffle.partitions")
    if partitions and overview.operators:
        told["recorded partitions"] = partitions
    return facts_table(told)


def _batches(batches: tuple[int, int, int] | None) -> str:
    if batches is None:
        return _NOTHING
    first, last, count = batches
    gaps = "" if count == last - first + 1 else f" ({count:,} files, so with gaps)"
    return f"{first:,} to {last:,}{gaps}"


def _watermark(overview: Overview) -> str:
    if overview.watermark_ms is None:
        return "none yet"
    said = instant_text(overview.watermark_ms)
    if overview.batch_time_ms is not None:
        said += (
            f"; {_distance(overview.watermark_ms, overview.batch_time_ms)} the last batch's time"
        )
    if overview.newest_event_ms is not None:
        said += f"; {_distance(overview.watermark_ms, overview.newest_event_ms)} the newest event"
    return said


def _distance(watermark: int, other: int) -> str:
    apart = length_of(abs(other - watermark) // 1000 * 1000)
    return f"{apart} {'before' if watermark <= other else 'AFTER'}"


def _sources(overview: Overview) -> ReportTable:
    table = report_table("source", "kind", "~ends at", "behind", "lists of files")
    for one in overview.sources[:_SHOWN]:
        lists = f"{one.lists:,}" if one.lists or one.compacted else _NOTHING
        table.add_row(
            one.id,
            one.kind,
            shortened(one.offset or "no offset yet", _LONGEST_OFFSET),
            _NOTHING if one.behind is None else f"{one.behind:,} versions",
            f"{lists} and {one.compacted:,} compacted" if one.compacted else lists,
        )
    _and_more(table, len(overview.sources))
    return table


def _operators(overview: Overview) -> ReportTable:
    columns = ("operator", "name", "partitions", "stores", "state store", "newest version")
    table = report_table(*columns, ">bytes")
    for one in overview.operators[:_SHOWN]:
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
    _and_more(table, len(overview.operators))
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


def _and_more(table: ReportTable, count: int) -> None:
    if count > _SHOWN:
        table.add_row("…", f"{count - _SHOWN:,} more")
