"""Replays of rejects in the warm session."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kit.running import Place, quiet
from tidemark.recompute.replay.result import ReplayResult
from tidemark.runs.requests import ReplayRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replay_warm(
    spark: SparkSession, place: Place, now: datetime | None = None, **asked: Any
) -> ReplayResult:
    """One replay in the shared session; asked for no rejects, what was begun is finished."""
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.replay import replay_once

    return replay_once(
        JobAct(
            place.run("replaying"),
            ReplayRequest(pipeline=place.name, **{"reason": "mended", **asked}),
            quiet(),
            now or datetime.now(UTC),
            session=lambda *_: spark,
            on_lapse=lambda lost: None,
        )
    )


def replayed(spark: SparkSession, place: Place, **asked: Any) -> ReplayResult:
    """One that must succeed."""
    result = replay_warm(spark, place, **asked)
    assert result.error is None, result.error
    return result


def mended(place: Place, *lines: Mapping[str, Any] | str, name: str = "mended.jsonl") -> str:
    """The place of a file of these lines."""
    file = place.root / name
    file.write_text("".join(f"{one}\n" for one in _texts(lines)))
    return str(file)


def _texts(lines: Iterable[Mapping[str, Any] | str]) -> Iterable[str]:
    return (one if isinstance(one, str) else json.dumps(one) for one in lines)
