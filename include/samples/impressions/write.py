"""Rows as files, and what was made as a manifest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from samples.impressions.clicks import Clicks, clicks_of
from samples.impressions.draw import Ints
from samples.impressions.kinds import BROKEN_JSON, KINDS, LATE
from samples.impressions.rows import Chunk, rows
from samples.impressions.spec import Plan, Spec, plan

Json = dict[str, Any]

RULES = {
    "rows": "good + duplicates + future + malformed; each row is counted once",
    "good": "on_time + late: what a pipeline accepts",
    "late": "event time more than the delay before the newest of the earlier files, by name",
    "duplicates": "the impressionId, and the whole line, of an on-time row before it",
    "future": "event time at least a day after now",
    "event_time": "of good rows",
}


@dataclass(frozen=True)
class _Made:
    counts: Ints  # by kind
    oldest: int | None  # event time of good rows, milliseconds
    newest: int | None


def generate(
    spec: Spec,
    out: Path,
    manifest: Path,
    clicks: Clicks | None = None,
    clicks_out: Path | None = None,
) -> Json:
    """Writes the files into `out`, then the manifest, and returns what the manifest says; with
    `clicks` also files of clicks on the impressions, into `clicks_out`.

    A file gets its name only when it is whole (until then it is hidden, and not found by
    `*.json*`). Raises ValueError for an impossible spec or a manifest inside `out`, where a
    pipeline would read it, and FileExistsError for files of an earlier call, which a stream
    may have read.
    """
    for folder in (out, clicks_out or out):
        if manifest.resolve().is_relative_to(folder.resolve()):
            message = f"the manifest {manifest} would be read as input: put it outside {folder}"
            raise ValueError(message)
    planned = plan(spec)
    names = [file_name(spec, file) for file in range(spec.files)]
    _refuse_existing(out, names)
    out.mkdir(parents=True, exist_ok=True)
    clicked = None
    if clicks is not None and clicks_out is not None:
        clicked = _write_clicks(spec, clicks, planned, clicks_out)
    made = [
        _write_file(out / names[file], chunks, spec.gzip)
        for file, chunks in groupby(rows(planned), key=lambda chunk: chunk.file)
    ]
    written = _manifest(spec, names, made)
    if clicked is not None:
        written["clicks"] = clicked
    manifest.parent.mkdir(parents=True, exist_ok=True)
    with _whole(manifest) as stream:
        stream.write(json.dumps(written, indent=2).encode() + b"\n")
    return written


def file_name(spec: Spec, file: int, what: str = "impressions") -> str:
    """Files of one seed sort in the order in which they are written."""
    return f"{what}-{spec.seed}-{file:06d}.json" + (".gz" if spec.gzip else "")


def _refuse_existing(out: Path, names: Sequence[str]) -> None:
    there = [name for name in names if (out / name).exists()]
    if there:
        raise FileExistsError(
            f"{out} holds {len(there)} of {len(names)} files already, such as {there[0]}; "
            "nothing was written: take another seed or another folder"
        )


def _write_file(path: Path, chunks: Iterable[Chunk], zipped: bool) -> _Made:
    counts, good = np.zeros(len(KINDS), np.int64), list[int]()
    with _whole(path) as target, _zipped(target) if zipped else nullcontext(target) as stream:
        for chunk in chunks:
            stream.write(("\n".join(chunk.lines) + "\n").encode())
            counts += np.bincount(chunk.kinds, minlength=len(KINDS))
            times = chunk.times[chunk.kinds <= LATE]
            good += [int(times.min()), int(times.max())] if len(times) else []
    return _Made(counts, min(good, default=None), max(good, default=None))


def _write_clicks(spec: Spec, clicks: Clicks, planned: Plan, out: Path) -> Json:
    names = [file_name(spec, file, "clicks") for file in range(spec.files)]
    _refuse_existing(out, names)
    out.mkdir(parents=True, exist_ok=True)
    rows_written = late = 0
    for made in clicks_of(spec, clicks, rows(planned)):
        with (
            _whole(out / names[made.file]) as target,
            _zipped(target) if spec.gzip else nullcontext(target) as stream,
        ):
            stream.write("".join(f"{line}\n" for line in made.lines).encode())
        rows_written, late = rows_written + len(made.lines), late + made.late
    return {"rows": rows_written, "late": late, "files": names}


def _zipped(target: IO[bytes]) -> IO[bytes]:
    """Without name and time in the header, so that the same rows give the same bytes."""
    return cast(IO[bytes], gzip.GzipFile("", "wb", compresslevel=1, fileobj=target, mtime=0))


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name once it is written to its end, and else leaves nothing.

    Until then its name is hidden and without ".json": a pattern that found it would look for a
    file that is gone after the renaming.
    """
    hidden = path.with_name(f".{path.name.partition('.')[0]}.part")
    try:
        with hidden.open("wb") as target:
            yield target
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


def _manifest(spec: Spec, names: Sequence[str], made: Sequence[_Made]) -> Json:
    total = _Made(
        np.sum([each.counts for each in made], axis=0),
        min((each.oldest for each in made if each.oldest is not None), default=None),
        max((each.newest for each in made if each.newest is not None), default=None),
    )
    return {
        "spec": {name: _plain(value) for name, value in asdict(spec).items()},
        "rules": RULES,
        "total": _described(total),
        "files": [
            {"name": name, **_described(each)} for name, each in zip(names, made, strict=True)
        ],
    }


def _described(made: _Made) -> Json:
    count = dict(zip(KINDS, made.counts.tolist(), strict=True))
    return {
        "rows": sum(count.values()),
        "good": count["on_time"] + count["late"],
        "on_time": count["on_time"],
        "late": count["late"],
        "duplicates": count["duplicate"],
        "future": count["future"],
        "malformed": {kind: count[kind] for kind in KINDS[BROKEN_JSON:]},
        "event_time": {"min": _iso(made.oldest), "max": _iso(made.newest)},
    }


def _iso(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{np.datetime64(milliseconds, 'ms')}Z"


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f"{value.total_seconds():g} seconds" if isinstance(value, timedelta) else value
