"""What the demo lands: both samples, in two parts."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from demo.environment import REPOSITORY
from samples.impressions import Spec, generate
from samples.impressions.spec import SHARES

SAMPLES = REPOSITORY / "include" / "samples"
# The generated rows go on the worked example's clock: with them, too, the newest event is at
# 12:09 after the first part and at 12:14 after the second, so the watermark is the example's.
FIRST_NEWEST = datetime(2026, 3, 1, 12, 9, tzinfo=UTC)
SECOND_NEWEST = datetime(2026, 3, 1, 12, 14, tzinfo=UTC)


@dataclass(frozen=True)
class SamplePart:
    """A part of both samples: which files, and which rows to generate beside them.

    Its runs stand for a time on the schedule: so long before the demo's last run.
    """

    number: int
    access_log: range
    triggers: tuple[int, ...]
    rows: int
    newest: datetime
    span: timedelta
    before_the_last: timedelta


PARTS = (
    SamplePart(
        *(1, range(10), (1, 2), 20_000, FIRST_NEWEST, timedelta(minutes=60)),
        before_the_last=timedelta(minutes=70),
    ),
    SamplePart(
        *(2, range(10, 20), (3,), 5_000, SECOND_NEWEST, SECOND_NEWEST - FIRST_NEWEST),
        before_the_last=timedelta(minutes=60),
    ),
)


def land(part: SamplePart, root: Path, manifests: Path, now: datetime) -> dict[str, str]:
    """Put a part into the landing folders; what was put there, by pipeline.

    `now` is the clock's time: the generated future rows lie a day after it.
    """
    requests = [SAMPLES / "access_log" / f"part-{n:02}.json.gz" for n in part.access_log]
    example = [SAMPLES / "ad_impressions" / f"trigger-{n}.json" for n in part.triggers]
    _copy(requests, root / "landing" / "access_log")
    _copy(example, root / "landing" / "ad_impressions")
    made = _generate(part, root / "landing" / "ad_impressions", manifests, now)
    names = ", ".join(path.stem for path in example)
    return {
        "access_log": f"{len(requests)} files of real requests",
        "ad_impressions": f"{names} of the worked example, {_told(made)}",
    }


def _copy(files: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        # Hidden until whole: a stream may be reading the folder.
        hidden = folder / f".{file.name.partition('.')[0]}.part"
        shutil.copyfile(file, hidden)
        hidden.rename(folder / file.name)


def _generate(part: SamplePart, folder: Path, manifests: Path, now: datetime) -> dict[str, Any]:
    spec = Spec(
        seed=part.number,
        rows=part.rows,
        files=2,
        start=part.newest - part.span,
        span=part.span,
        now=now,
        late=0.02,
        malformed=0.005,
        duplicates=0.01,
        future=0.002,
    )
    made: dict[str, Any] = generate(spec, folder, manifests / f"impressions-{part.number}.json")
    return made


def _told(made: dict[str, Any]) -> str:
    kinds = {**made["total"], "malformed": sum(made["total"]["malformed"].values())}
    told = ", ".join(f"{kinds[kind]:,} {kind}" for kind in ("on_time", *SHARES))
    return f"and {kinds['rows']:,} generated rows ({told.replace('on_time', 'on time')})"


def without_schedule(pipelines: Path, target: Path) -> None:
    """Copies of the pipeline files for the demo, which says itself when a run starts."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("access_log", "ad_impressions"):
        lines = (pipelines / f"{name}.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("schedule:")]
        (target / f"{name}.yaml").write_text("".join(kept), encoding="utf-8")


def write_settings(file: Path, root: Path, pipelines: Path) -> None:
    """Settings of the demo's own, in JSON, which is YAML."""
    values = {"root": str(root), "pipelines": str(pipelines)}
    file.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
