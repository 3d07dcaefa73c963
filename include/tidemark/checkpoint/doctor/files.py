"""Files beside the logs and the state: checksums, leftovers, and what is not known here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tidemark.checkpoint.doctor.findings import Finding, FindingKind, Severity, examples, shown
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.log_formats import COMPACT
from tidemark.storage.files import FileFacts

# A file that is being written is younger; one of a dead run stays.
_YOUNG = timedelta(hours=1)
# What an operator says of itself, which a start does not read.
_OPERATOR = re.compile(r"state/[0-9]+/_metadata/")


def file_findings(facts: CheckpointFacts, now: datetime) -> Iterator[Finding]:
    """What is known of files that a start does not read by name. `now` is in UTC."""
    yield from _checksums(facts)
    yield from _not_opened(facts)
    yield from _leftovers(facts, now)
    yield from _unknown(facts)


def old_leftovers(leftovers: Mapping[str, FileFacts], now: datetime) -> tuple[str, ...]:
    """Those that no query can still be writing: older than an hour at `now` (UTC)."""
    return tuple(name for name, file in leftovers.items() if now - file.modified >= _YOUNG)


def _checksums(facts: CheckpointFacts) -> Iterator[Finding]:
    old = {*_old(facts)}
    others = [n for n in facts.wrong_checksums if n in old or _OPERATOR.match(n)]
    needed = [name for name in facts.wrong_checksums if name not in others]
    for names, severity in ((needed, Severity.DAMAGE), (others, Severity.WARNING)):
        if names:
            yield Finding(
                FindingKind.CHECKSUM,
                severity,
                f"{len(names):,} files do not match the checksum beside them: {shown(names)}.",
                "It may stop when it reads one (`ChecksumException`, or a wrong checksum). Spark "
                "4.2 was seen to read local files all the same.",
                "What the files hold: they were cut, changed by hand, or restored without their "
                "checksums.",
                "Restore the files together with their checksum files. Where a file itself is "
                "right, the old checksum file may be moved away.",
                *examples(names),
            )


def _old(facts: CheckpointFacts) -> Iterator[str]:
    """Of the logs and of the sources' lists what no start reads any more."""
    yield from (f"offsets/{batch}" for batch in facts.offsets.batches[:-2])
    yield from (f"commits/{batch}" for batch in facts.commits.batches[:-1])
    for source in facts.sources:
        if (lists := source.file_list) is not None:
            names = {str(one): one for one in lists.lists}
            names |= {f"{one}{COMPACT}": one for one in lists.compacted}
            old = (name for name, number in names.items() if number < lists.first_needed)
            yield from (f"sources/{source.id}/{name}" for name in old)


def _not_opened(facts: CheckpointFacts) -> Iterator[Finding]:
    partly = [operator.id for operator in facts.operators if not operator.opened]
    if partly:
        yield Finding(
            FindingKind.CHECKSUM,
            Severity.NOTE,
            f"Operators {shown(map(str, partly))} have more files of state than are opened at "
            "once: of the others only names and sizes are known.",
            "It reads all that the version needs.",
            "None is known.",
            "Nothing has to be done.",
        )


def _leftovers(facts: CheckpointFacts, now: datetime) -> Iterator[Finding]:
    old = old_leftovers(facts.leftovers, now)
    young = [name for name in facts.leftovers if name not in set(old)]
    if old:
        size = sum(facts.leftovers[name].size for name in old)
        yield Finding(
            FindingKind.LEFTOVERS,
            Severity.NOTE,
            f"{len(old):,} files, {size:,} bytes, are what a run left that ended in the middle of "
            f"writing, or checksums of files that are gone: {shown(old)}.",
            "It does not read them, and does not remove them.",
            "None.",
            "They may be removed while no query runs.",
            *examples(old),
        )
    if young:
        yield Finding(
            FindingKind.LEFTOVERS,
            Severity.NOTE,
            f"{len(young):,} temporary files, or checksums of files that are gone, are younger "
            f"than an hour: {shown(young)}.",
            "It writes every file under a temporary name first.",
            "None.",
            "A query may be running on this checkpoint: then what is said here may be out of date.",
            *examples(young),
        )


def _unknown(facts: CheckpointFacts) -> Iterator[Finding]:
    state = [name for name in facts.unknown if name.startswith("state/")]
    judged = any(store.files for operator in facts.operators for store in operator.stores)
    if facts.unknown:
        yield Finding(
            FindingKind.UNKNOWN_FILES,
            Severity.UNKNOWN if state and not judged else Severity.NOTE,
            f"{len(facts.unknown):,} files have names that no known version of the engine gives: "
            f"{shown(facts.unknown)}.",
            "A newer version, another state store or somebody else may have written them.",
            "None is known.",
            "They were not judged." + (" Nor was the state." if state and not judged else ""),
            *examples(facts.unknown),
        )
