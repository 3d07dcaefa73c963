"""What a backup says is done where somebody named it, and nowhere else.

A checkpoint may come from others: its stop mark names a backup, and that backup's plan a
checkpoint, a table, a folder. Whoever gives the command may do more than whoever wrote them.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterator
from datetime import datetime

from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.files_sink import FOLDER
from tidemark.checkpoint.rewind.sinks import DELTA, FILES, OTHER, Sink
from tidemark.errors import RewindRefused
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.storage.file_place import FilePlace

_USUAL = re.compile(r"\.before-\d{8}T\d{6}Z")


def usual_backup(checkpoint: str, now: datetime) -> str:
    """Where a backup goes unless somebody names a place: beside the checkpoint."""
    return f"{checkpoint}.before-{now:%Y%m%dT%H%M%SZ}"


def check_named_backup(backup: str, checkpoint: str, named: str | None) -> None:
    """RewindRefused where a stop mark leads to a backup that is not beside its checkpoint, nor the
    one that was named."""
    if _is_usual(backup, checkpoint) or (named is not None and _same(backup, named)):
        return
    raise RewindRefused(
        f"A change of {checkpoint} was begun and not finished. Its stop mark names the backup "
        f"{backup}, which is not beside it and was not named, so nothing of it was read, and "
        f"nothing was changed. If that is the backup of your command, add --backup "
        f"{shlex.quote(backup)}."
    )


def not_named(
    change: CheckpointChange, backup: str, checkpoint: str | None, sink: Sink | None
) -> Iterator[str]:
    """Why a plan that was read from a backup is not carried out: it would change what the command
    does not name. No `checkpoint`: the backup's name has to tell it."""
    known = _same(change.uri, checkpoint) if checkpoint else _is_usual(backup, change.uri)
    if not known:
        yield f"It changes the checkpoint {change.uri}, which the command does not name."
    if change.table is not None and not _is_sink(sink, DELTA, change.table.uri):
        yield f"It changes the table {change.table.uri}, which the command does not name."
    if change.sink_log is not None and not _is_sink(sink, FILES, change.sink_log.uri):
        yield f"It changes the folder {change.sink_log.uri}, which the command does not name."
    if change.table is None and change.sink_log is None and not _is_said(sink, change.sink):
        yield f"It was made with --sink {change.sink}, which the command does not name."
    places = [(FilePlace(change.uri), change.listed.keys() | change.written.keys())]
    if change.sink_log is not None:
        places.append((FilePlace(_output(change.sink_log.uri)), {f"{FOLDER}/0"}))
    for place, names in places:
        if (folder := place.led_out(names)) is not None:
            yield f"{place.below(folder)} is a link to a place out of {place.uri}."


def sink_option(change: CheckpointChange) -> list[str]:
    """What names the sink of a change on the command line."""
    if change.sink is not None:
        return ["--sink", change.sink]
    if change.table is not None:
        return ["--sink", f"{DELTA}:{change.table.uri}"]
    return ["--sink", f"{FILES}:{_output(change.sink_log.uri)}"] if change.sink_log else []


def restore_command(change: CheckpointChange, backup: str) -> str:
    """The command that brings all back, with each place that it changes."""
    checkpoint = [] if _is_usual(backup, change.uri) else ["--checkpoint", change.uri]
    named = [backup, *checkpoint, *sink_option(change), "--apply"]
    return shlex.join(["tidemark", "checkpoint", "restore", *named])


def _is_usual(backup: str, checkpoint: str) -> bool:
    beside = backup.startswith(checkpoint)
    return beside and bool(_USUAL.fullmatch(backup.removeprefix(checkpoint)))


def _is_sink(sink: Sink | None, kind: str, place: str) -> bool:
    if sink is None or sink.kind != kind or sink.place is None:
        return False
    return _same(place, sink.place.folder(FOLDER).uri if kind == FILES else sink.place.uri)


def _is_said(sink: Sink | None, said: str | None) -> bool:
    """Is it the sink that a change was made with, or was none told, or none that could be asked?"""
    kind, _, place = (said or OTHER).partition(":")
    if not place:
        return True
    if sink is None or sink.kind != kind or sink.place is None:
        return False
    return _same(place, sink.place.uri)


def _output(log: str) -> str:
    return log.rstrip("/").removesuffix(f"/{FOLDER}")


def _same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(place: str) -> str:
    return os.path.realpath(local_path(place)) if is_local(place) else place.rstrip("/")
