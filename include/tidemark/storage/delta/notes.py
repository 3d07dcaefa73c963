"""What a commit says of itself: a note of one kind, as JSON in its `userMetadata`.

Notes are read for the ledger, for the seal, and for what a repeat may leave out, so one that
cannot be understood must not pass for one that is not there. Hence what is told apart:
- a known kind whose version or form is not known is a note of a newer Tidemark, and an error: to
  pass over a batch of ingest, for one, would leave its rows in what gold is held against;
- an unknown kind is none of ours, or of a newer Tidemark. Nothing here asks for it, so it is no
  note. A change of what a known kind means raises its version, and is never a new kind;
- what has no kind and version is a note where it has a form that was written before there were
  kinds; else it is somebody's text, and no note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal, get_args

from pydantic import AliasChoices, AwareDatetime, Field, TypeAdapter, ValidationError

from tidemark.errors import NoteUnreadable
from tidemark.storage.delta.rows import Rows
from tidemark.storage.result_file import Facts

_ENTRY = "userMetadata"
# Columns that `retracted` has beside bronze's: the act, when it was planned, who did it, and why.
RETRACTION, RETRACTED_AT, RETRACTED_BY = "_retraction", "_retracted_at", "_retracted_by"
RETRACTED_BECAUSE = "_reason"
# Columns that `replayed` has beside those of rejects; `_mended` is the text that was accepted in
# the place of `raw`, null where that itself was.
REPLAY, REPLAYED_AT, REPLAYED_BY = "_replay", "_replayed_at", "_replayed_by"
REPLAYED_BECAUSE, MENDED = "_reason", "_mended"
# Of what cannot be read an error shows so much.
_SHOWN = 300


class IngestNote(Facts):
    """Rows of an ingest batch, in bronze or in rejects: the batch's counts, and its source's
    verdicts on whole parts (part, reason, detail).

    `seen` holds what the source saw of a part that was another than planned: of a file, its time
    in milliseconds. Lines of more than `max_line_bytes` were rejected; None: the note is older than
    that entry, and none was. Rows after the event time `jump_after_us`, in microseconds since 1970,
    were rejected as a jump; None: there was none. `scheduled_ms` is the scheduled time of the run
    that committed the accepted rows, `run` the run that made this commit; None: the note is older.
    Version 1 was of files alone: `files`, `seen_ms`.
    """

    kind: Literal["ingest"] = "ingest"
    version: Literal[1, 2] = 2
    query: str
    batch: int
    rows: Rows
    verdicts: tuple[tuple[str, str, str], ...] = Field(
        default=(), validation_alias=AliasChoices("verdicts", "files")
    )
    seen: dict[str, int] = Field(
        default_factory=dict, validation_alias=AliasChoices("seen", "seen_ms")
    )
    max_line_bytes: int | None = None
    jump_after_us: int | None = None
    scheduled_ms: int | None = None
    run: str | None = None


class EmittedNote(Facts):
    """Windows that a table's query emitted in a batch, in `changes`.

    `close_ms` is the close frontier, in milliseconds, up to which windows were left out; None:
    the note is older than that entry. `emitted_rows` is the sum of `rows` over all that was
    emitted, those windows included; None: it was not summed.
    """

    kind: Literal["emitted"] = "emitted"
    version: Literal[1] = 1
    query: str
    batch: int
    close_ms: int | None = None
    emitted_rows: int | None = None


class RecomputedNote(Facts):
    """Windows that a run computed again from bronze, in `changes`, and why."""

    kind: Literal["recomputed"] = "recomputed"
    version: Literal[1] = 1
    cause: str
    run: str


class PublishedNote(Facts):
    """A publish of a run, in gold: so many windows changed, from the earliest start to the latest
    end, in milliseconds; no range where none changed. `trigger` is None for a run of the stream.
    """

    kind: Literal["published"] = "published"
    version: Literal[1] = 1
    run: str
    started_at: AwareDatetime
    trigger: str | None = None
    windows: int = 0
    start_ms: int | None = None
    end_ms: int | None = None


class RetentionNote(Facts):
    """Dates whose rows `keep` dropped, from bronze. `tables` are those of the pipeline's file then,
    of which none needed them any more; None: the note is older than that entry."""

    kind: Literal["retention"] = "retention"
    version: Literal[1] = 1
    dates: tuple[date, ...]
    tables: tuple[str, ...] | None = None


class RejectsDroppedNote(Facts):
    """Rejects that `keep_rejects` dropped: so many `rows`, all of the batches up to this one."""

    kind: Literal["rejects_dropped"] = "rejects_dropped"
    version: Literal[1] = 1
    up_to: int
    rows: int


class WidenedNote(Facts):
    """Columns that got a wider type: all rows of bronze were written again, as they were."""

    kind: Literal["widened"] = "widened"
    version: Literal[1] = 1
    columns: tuple[str, ...]


class AcceptedNote(Facts):
    """Somebody accepted what was changed by hand in the versions up to `up_to`: why, and who.
    `tables` are those of the pipeline's file then, for which it holds; None: the note is older
    than that entry, and holds for all.

    In gold of a table that joins, what was accepted of the other pipeline's bronze is noted too:
    `up_to` is -1 then, or a version of that bronze where a former version noted it."""

    kind: Literal["accepted"] = "accepted"
    version: Literal[1] = 1
    up_to: int
    reason: str
    by: str
    tables: tuple[str, ...] | None = None


class LookupNote(Facts):
    """What a pipeline's copy of a lookup is of: the version of its source, and what of the
    pipeline's file made it. The number grows with each other content."""

    kind: Literal["lookup"] = "lookup"
    version: Literal[1] = 1
    number: int
    source: str
    definition: str


class RewoundNote(Facts):
    """The table is what it was at version `to_version`: a rewind of this id took it back, and all
    that was committed in between counts no more."""

    kind: Literal["rewound"] = "rewound"
    version: Literal[1] = 1
    id: str
    to_version: int


class RetractedNote(Facts):
    """Rows that a retraction of this id moved from bronze to `retracted`, or, where it `undoes`
    another one, back. Said by the commits of both tables."""

    kind: Literal["retracted"] = "retracted"
    version: Literal[1] = 1
    id: str
    rows: int
    undoes: str | None = None

    @property
    def rows_of(self) -> str:
        """The act that took these rows out of bronze."""
        return self.undoes or self.id


class ErasedNote(Facts):
    """Rows that an erasure of this id took out of a table, and that are nowhere since."""

    kind: Literal["erased"] = "erased"
    version: Literal[1] = 1
    id: str
    rows: int


class ReplayedNote(Facts):
    """Rejects that a replay of this id moved to `replayed`, as so many rows of bronze. Said by the
    commits of all three tables."""

    kind: Literal["replayed"] = "replayed"
    version: Literal[1] = 1
    id: str
    rows: int

    @property
    def transaction(self) -> str:
        """The app transaction of both appends."""
        return f"replay/{self.id}"


Note = (
    IngestNote
    | EmittedNote
    | RecomputedNote
    | PublishedNote
    | RetentionNote
    | RejectsDroppedNote
    | WidenedNote
    | AcceptedNote
    | LookupNote
    | RewoundNote
    | RetractedNote
    | ErasedNote
    | ReplayedNote
)

_NOTE: TypeAdapter[Note] = TypeAdapter(Annotated[Note, Field(discriminator="kind")])
_KINDS = [model.model_fields["kind"].default for model in get_args(Note)]
# Entries of gold's commits before there were kinds, by what they are called now.
_FORMER_PUBLISH = {name: name for name in ("run", "started_at", "trigger", "windows")}
_FORMER_PUBLISH |= {"windows_start_ms": "start_ms", "windows_end_ms": "end_ms"}


def as_metadata(note: Note) -> dict[str, str]:
    """A note as what its commit's metadata holds (`custom_metadata`)."""
    return {_ENTRY: note.model_dump_json(exclude_none=True)}


def note_of(commit: Mapping[str, Any]) -> Note | None:
    """The note of a commit of a table's history; None where it has none of ours.

    Raises NoteUnreadable where it has one of a known kind in another version or form.
    """
    noted = _told(commit)
    if "kind" not in noted or "version" not in noted:
        return _former(noted, commit) or _former_publish(commit)
    return _known(noted, commit) if noted["kind"] in _KINDS else None


def _known(noted: Mapping[str, Any], commit: Mapping[str, Any]) -> Note:
    try:
        return _NOTE.validate_python(noted)
    except ValidationError as error:
        raise NoteUnreadable(
            f"The commit of version {commit.get('version')} notes {str(noted)[:_SHOWN]}: a note of "
            f"kind `{noted['kind']}`, but in no form that this version of Tidemark knows. What "
            "rests on it was not done. Run the version that wrote it, or a newer one."
        ) from error


def _told(commit: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in its userMetadata; empty where that is not a JSON object."""
    try:
        noted = json.loads(commit.get(_ENTRY) or "{}")
    except (TypeError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _former(noted: dict[str, Any], commit: Mapping[str, Any]) -> Note | None:
    """A note of a batch from before there were kinds, known by an entry that only it has."""
    if not {"query", "batch"} <= noted.keys():
        return None
    if "seen_ms" in noted:
        return _known({"kind": "ingest", "version": 1, **noted}, commit)
    if "close_ms" in noted or "emitted_rows" in noted:
        return _known({"kind": "emitted", **noted}, commit)
    return None


def _former_publish(commit: Mapping[str, Any]) -> Note | None:
    """A note of a publish from before there were kinds: entries of their own in the metadata."""
    if "run" not in commit or "started_at" not in commit:
        return None
    found = {name: commit[entry] for entry, name in _FORMER_PUBLISH.items() if entry in commit}
    try:
        return PublishedNote.model_validate(found)
    except ValidationError:
        # Somebody else's commit with entries of these names.
        return None
