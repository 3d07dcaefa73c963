"""A run of a kind's table as a process of its own, which may end itself at a commit point."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.end_to_end.killed_job import call_at
from tests.operators.contract.kinds import DAY, KINDS, place_of
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.run import Run
from tidemark.storage.result_file import write_result
from tidemark.streaming.jobs.stream import run_once
from tidemark.streaming.progress import Progress


def main() -> int:
    parser = ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--kill", nargs=2)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--result", required=True)
    given, _ = parser.parse_known_args()
    if given.kill:
        end = partial(os.killpg, os.getpgid(0), signal.SIGKILL)
        call_at(end, *given.kill, "1", "")
    importlib.import_module("tests.operators.contract.streamed_stretches")
    place = place_of(Path(os.environ["TIDEMARK_ROOT"]), KINDS[given.kind])
    run = Run(place.pipeline, place.settings, given.run_id, epoch_ms(DAY))
    result = run_once(run, Progress(place.name), datetime.now(UTC), hold=False)
    write_result(given.result, result, {})
    return 0 if result.error is None else 1


if __name__ == "__main__":
    sys.exit(main())
