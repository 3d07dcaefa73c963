"""`spark-submit`'s entry for several pipelines: a run of each, one after the other, in one Spark.

Each run is what it is alone: its lease, its session, its result where it always is. What fails is
the result of that one, and the next one begins. Only a lease that is lost ends the process, and an
engine that is gone; the next run of each pipeline takes up what is left.
Exit codes: 0 success; 1 something must be mended first; 75 a retry can help for all that failed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from tidemark.errors import FAILED, RETRY, SUCCESS, TidemarkError
from tidemark.pipeline.granted import check_granted
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.pipeline.settings.spark import of_the_process
from tidemark.printed import printing_text
from tidemark.runs.requests import ManyRequest, StreamRequest
from tidemark.streaming.engine.sessions import end_session, is_gone, session_beside
from tidemark.streaming.jobs.stream import run_asked
from tidemark.streaming.session import bare_conf, checked_session, session_conf


@printing_text()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the pipelines; the exit code. Never raises for an error that it can report."""
    asked = ManyRequest.read(argv)
    try:
        settings = load_settings(asked.settings, root=asked.root)
    except TidemarkError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    run_id = asked.run_id or manual_run_id(datetime.now(UTC))
    # A pipeline has the name of its file.
    requests = [
        asked.of_one(
            one, run_id, Places(settings.root, Path(one).stem).result(run_id, asked.try_number)
        )
        for one in asked.pipelines
    ]
    return run_all(requests, SharedEngine(f"tidemark, {len(requests)} pipelines"))


def run_all(requests: Sequence[StreamRequest], engine: SharedEngine) -> int:
    """A run of each; the exit code of all of them."""
    codes = set()
    for number, request in enumerate(requests, 1):
        codes.add(run_asked(request, engine.session_of))
        engine.end_session()
        if engine.is_gone() and number < len(requests):
            left = ", ".join(Path(one.pipeline).stem for one in requests[number:])
            print(f"Spark has ended, so these were not run: {left}", file=sys.stderr)
            codes.add(RETRY)
            break
    return next((code for code in (FAILED, RETRY) if code in codes), SUCCESS)


@dataclass
class SharedEngine:
    """One start of Spark, of which each pipeline has a session of its own.

    It starts with the first pipeline that needs it, under the settings of the process that all of
    them have. Where it does not start, that is what all of them are told.
    """

    name: str
    first: SparkSession | None = None
    session: SparkSession | None = None
    failure: TidemarkError | None = None

    def session_of(self, pipeline: Pipeline, settings: Settings) -> SparkSession:
        """A session for a pipeline; raises as `start_session` does."""
        check_granted(pipeline, settings)
        if self.failure:
            raise self.failure
        if self.first is None:
            self.first = self._started(of_the_process(pipeline.advanced.spark), settings)
        self.session = session_beside(self.first, session_conf(pipeline, settings))
        return self.session

    def _started(self, own: Mapping[str, str], settings: Settings) -> SparkSession:
        try:
            return checked_session(self.name, {**bare_conf(settings), **own}, settings)
        except TidemarkError as error:
            self.failure = error
            raise

    def end_session(self) -> None:
        """End what the last pipeline's session may have left."""
        if self.session is not None:
            end_session(self.session)
            self.session = None

    def is_gone(self) -> bool:
        """Was there a Spark, and is none there any more?"""
        return self.first is not None and is_gone(self.first)


if __name__ == "__main__":
    sys.exit(main())
