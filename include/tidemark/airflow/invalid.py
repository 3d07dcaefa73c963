"""One error for all pipeline files that cannot be used, for a Dag file that holds no Dag.

So the Dag processor shows it as one import error, and the good pipelines' Dags stay.
"""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import PipelineInvalid, PipelineNotFound
from tidemark.pipeline.load import load_pipelines, unread_below
from tidemark.pipeline.settings.settings import load_settings


def raise_invalid_pipelines(
    folder: str | Path | None = None, settings: str | Path | None = None
) -> None:
    """Raise one error that lists every invalid pipeline file; return when all are valid.

    `folder` and `settings` as in `pipeline_dags`; a folder that is given needs no settings.
    SettingsInvalid when the settings cannot be used, PipelineNotFound when there is no such
    folder or its files all lie in folders below, PipelineInvalid for invalid files.
    """
    place = existing_folder(folder or load_settings(settings).pipelines_folder)
    valid, invalid = load_pipelines(place)
    if invalid:
        count = f"{len(invalid)} of {len(valid) + len(invalid)} pipeline files in {place}"
        head = f"{count} cannot be used and have no Dag; the others are not affected."
        raise PipelineInvalid("\n\n".join([head, *(str(error) for error in invalid)]))
    if not valid and (below := unread_below(place)):
        raise PipelineNotFound(f"The folder {place} holds no pipeline file{below}.")


def existing_folder(folder: str | Path) -> Path:
    """The folder of pipeline files, absolute; PipelineNotFound where it is not there."""
    place = Path(folder).absolute()
    if not place.is_dir():
        raise PipelineNotFound(
            f"There is no folder {place} of pipeline files, so no Dag was made of any. Make it, "
            "or name the right one: as an argument, as `pipelines` in the settings file or as "
            "TIDEMARK_PIPELINES."
        )
    return place
