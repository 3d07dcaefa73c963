"""A mark that a batch is being judged, so that a crash of the reader is seen by the next try.

Arrow's JSON reader is native code: a line that makes it crash takes the process along, and would
do so at every try. Where a try finds the mark of its own batch, one before it ended without a word
(it crashed, or was killed), and the batch is judged line by line, which needs no such reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.storage.files import FileMissing, read_bytes, remove_files, write_bytes


@contextmanager
def judging(checkpoint: Checkpoint, batch: int) -> Iterator[bool]:
    """Leave the mark while a batch is judged; True where an earlier try has left it.

    The mark lies beside the checkpoint's folder, which is the engine's.
    """
    place = f"{checkpoint.uri}.judging.json"
    mark = json.dumps({"query": str(checkpoint.query_id()), "batch": batch}).encode()
    try:
        left = read_bytes(place, checkpoint.options) == mark
    except FileMissing:
        left = False
    _mark(place, mark, checkpoint)
    try:
        yield left
    finally:
        _unmark(place, checkpoint)


@commit_point(
    "batch being judged",
    after_a_kill="before: nothing; after: the next try judges the batch line by line, which comes "
    "to the same",
)
def _mark(place: str, mark: bytes, checkpoint: Checkpoint) -> None:
    write_bytes(place, mark, checkpoint.options)


@commit_point(
    "batch no longer judged",
    after_a_kill="before: the next try judges the batch line by line; after: as before its rows "
    "are committed",
)
def _unmark(place: str, checkpoint: Checkpoint) -> None:
    remove_files([place], checkpoint.options)
