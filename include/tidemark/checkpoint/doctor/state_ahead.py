"""State that no batch of this checkpoint's log can have written."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.checkpoint.doctor.findings import Finding, FindingKind, Severity, examples
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator


def ahead_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """Files of versions above the one that the last planned batch leaves.

    A snapshot among them is the most dangerous thing in a checkpoint: it is loaded in silence as
    soon as the query's own versions reach its number.
    """
    for operator in facts.operators:
        yield from _ahead(facts, operator)


def _ahead(facts: CheckpointFacts, operator: StatefulOperator) -> Iterator[Finding]:
    """Files of versions that no batch of this log can have written."""
    newest = max(facts.version_needed, (facts.offsets.newest or 0) + 1)
    ahead = [store for store in operator.stores if store.newest > newest]
    if not ahead:
        return
    files = [
        f"{store.id.folder}/{file.name}"
        for store in ahead
        for version in sorted(store.files)
        if version > newest
        for file in store.files[version]
    ]
    yield Finding(
        FindingKind.STATE_AHEAD,
        Severity.DAMAGE,
        f"Operator {operator.id} has state of version {ahead[0].newest}, but the log can have "
        f"written none above {newest}: {len(files):,} files in {len(ahead):,} stores.",
        "It says nothing. When the query's own versions come to those numbers, it may load a "
        "snapshot among these files instead of its own state.",
        "Wrong sums without an error: these are files of a rewind that was not finished, of "
        "another writer, or of another copy of the checkpoint.",
        f"Move the files of versions above {newest} and their checksum files away while no query "
        "runs. If another query used this folder, give each its own.",
        *examples(files),
    )
