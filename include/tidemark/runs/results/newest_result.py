"""The results of a pipeline's newest run, and of a run's newest try."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from tidemark.errors import NotPublishable, ResultUnreadable
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.results.result import RunResult
from tidemark.runs.wall_clock import TOLERATED
from tidemark.storage.files import list_files, list_folder
from tidemark.storage.result_file import read_result

# Files of backfills and audits lie among them, and one for each try. More where none of these came
# as far as its pins.
_LOOKED_AT = 30


def held_run(pipeline: str, settings: Settings) -> tuple[str, RunResult]:
    """The result file of the newest run that came as far as its pins, and what it says. One that
    began later than now, as by a clock that was ahead, hides no other that is held.

    Raises NotPublishable where that run is published, or there is none.
    """
    places = Places(settings.root, pipeline)
    pinned = sorted(_pinned(places.results, settings), key=lambda one: one[1].started_at)
    until = datetime.now(UTC) + TOLERATED
    found = next((one for one in reversed(pinned) if one[1].started_at <= until), None)
    if pinned and (found is None or not found[1].held):
        found = pinned[-1]
    if found is None:
        raise NotPublishable(
            f"No run of `{pipeline}` has left a result below {places.results} that could "
            f"be published. Run the pipeline: `tidemark run {pipeline}`. Where a run's "
            "result file lies elsewhere, name it with --result."
        )
    if not found[1].held:
        raise NotPublishable(
            f"Nothing is held: {found[1].run_id}, the newest run of `{pipeline}`, is "
            "published. Nothing was written."
        )
    return found


def _pinned(folder: str, settings: Settings) -> Iterator[tuple[str, RunResult]]:
    files = list_files(folder, settings.storage_options)
    # Spark's logs lie beside them.
    results = [place for place in files if place.endswith(".json")]
    newest = sorted(results, key=lambda place: files[place].modified, reverse=True)
    is_found = False
    for number, place in enumerate(newest):
        if is_found and number >= _LOOKED_AT:
            break
        with suppress(ResultUnreadable):
            result = read_result(RunResult, place, settings.storage_options)
            if result.tables:
                is_found = True
                yield place, result


def newest_try(pipeline: str, settings: Settings, run_id: str) -> RunResult | None:
    """What the try of a run came to that ended last; None where no try left a result. In a shared
    Dag the highest number may be of a try before the run was cleared."""
    tries = results_of_tries(pipeline, settings, run_id)
    found = [
        read_result(RunResult, tries[number], settings.storage_options)
        for number in sorted(tries, reverse=True)
    ]
    return max(found, key=lambda one: one.ended_at, default=None)


def results_of_tries(pipeline: str, settings: Settings, run_id: str) -> dict[int, str]:
    """The places of the result files of a run's tries, by their numbers."""
    folder, _, name = Places(settings.root, pipeline).result(run_id).rpartition("/")
    of_a_try = re.compile(rf"{re.escape(name.removesuffix('.json'))}--try(\d+)\.json")
    return {
        int(match[1]): f"{folder}/{found}"
        for found in list_folder(folder, settings.storage_options)
        if (match := of_a_try.fullmatch(found))
    }
