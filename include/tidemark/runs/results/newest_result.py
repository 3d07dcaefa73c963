"""The result file of a pipeline's newest run, for those who name none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tidemark.errors import NotPublishable, ResultUnreadable
from tidemark.pipeline.places import Places
from tidemark.runs.results.result import RunResult
from tidemark.storage.files import Options, list_files
from tidemark.storage.result_file import read_result

# Files of backfills and audits lie among them, and one for each try.
_LOOKED_AT = 30


def held_run(places: Places, options: Options) -> tuple[str, RunResult]:
    """The result file of the newest run that came as far as its pins, and what it says.

    Raises NotPublishable where that run is published, or there is none.
    """
    found = max(_pinned(places, options), key=lambda one: one[1].started_at, default=None)
    if found is None:
        raise NotPublishable(
            f"No run of `{places.pipeline}` has left a result below {places.results} that could "
            f"be published. Run the pipeline: `tidemark run {places.pipeline}`. Where a run's "
            "result file lies elsewhere, name it with --result."
        )
    if not found[1].held:
        raise NotPublishable(
            f"Nothing is held: {found[1].run_id}, the newest run of `{places.pipeline}`, is "
            "published. Nothing was written."
        )
    return found


def _pinned(places: Places, options: Options) -> Iterator[tuple[str, RunResult]]:
    files = list_files(places.results, options)
    newest = sorted(files, key=lambda place: files[place].modified, reverse=True)
    for place in newest[:_LOOKED_AT]:
        with suppress(ResultUnreadable):
            result = read_result(RunResult, place, options)
            if result.tables:
                yield place, result
