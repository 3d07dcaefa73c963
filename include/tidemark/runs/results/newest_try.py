"""The result that the newest try of a run left."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidemark.pipeline.places import Places
from tidemark.storage.files import list_folder


def newest_try(places: Places, run_id: str, options: Mapping[str, str]) -> str | None:
    """The place of the result file of a run's newest try; None where no try left one."""
    folder, _, name = places.result(run_id).rpartition("/")
    of_a_try = re.compile(rf"{re.escape(name.removesuffix('.json'))}--try(\d+)\.json")
    tries = {
        int(match[1]): found
        for found in list_folder(folder, options)
        if (match := of_a_try.fullmatch(found))
    }
    return f"{folder}/{tries[max(tries)]}" if tries else None
