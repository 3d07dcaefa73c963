"""What it means that a pipeline's file names other files. Each verdict with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.pipeline.difference import FROM_NOW, ChangeVerdict, Difference
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.source_files import SourceFiles, split_files


def file_changes(old: str, new: str) -> Iterator[Difference]:
    """Where `source.files` is another; both are patterns as the files have them."""
    if old == new:
        return
    if _reaches(split_files(old), split_files(new)):
        verdict = ChangeVerdict.SAFE
        reason = (
            "Files that were read are known by their whole path. Those that the new pattern does "
            "not name any more and that were not read yet never will be"
        )
    else:
        verdict = ChangeVerdict.NOT_ALLOWED
        reason = (
            "Bronze is the record of one source: files of the old folder that were not read yet "
            "would be left out, and files that were moved would be read a second time"
        )
    yield Difference(INGEST, "source.files", old, new, verdict, reason)


def limit_changes(old: int | None, new: int | None) -> Iterator[Difference]:
    """Where `advanced.max_files_per_batch` is another."""
    if old != new:
        what, verdict = "advanced.max_files_per_batch", ChangeVerdict.SAFE
        yield Difference(INGEST, what, str(old), str(new), verdict, FROM_NOW)


def _reaches(old: SourceFiles, new: SourceFiles) -> bool:
    """Is the old folder the new one, or below it where folders below are read too?"""
    return new.folder == old.folder or (
        new.recursive and f"{old.folder}/".startswith(f"{new.folder}/")
    )
