"""How many batches a checkpoint keeps: one number for the engine and for housekeeping."""

from __future__ import annotations

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings

KEPT_BY_ENGINE = "spark.sql.streaming.minBatchesToRetain"
ENGINE_DEFAULT = 100


def kept_batches(pipeline: Pipeline, settings: Settings) -> int:
    """The committed batches that each query of a pipeline can be taken back to.

    The larger one of the engine's setting and the pipeline's `advanced.keep_batches`; the job
    gives it to the engine, which removes its own logs by it. The engine does not record it in a
    checkpoint. SettingsInvalid where the engine's is no whole number above 0.
    """
    engine = {**settings.spark, **pipeline.advanced.spark}.get(KEPT_BY_ENGINE, str(ENGINE_DEFAULT))
    if not engine.isdecimal() or int(engine) == 0:
        raise SettingsInvalid(
            f"`{KEPT_BY_ENGINE}` is {engine!r} for the pipeline `{pipeline.name}`: a whole number "
            "above 0 is wanted. Nothing was done. Mend it in the settings or under "
            "`advanced.spark`, or use `advanced.keep_batches`."
        )
    return max(int(engine), pipeline.advanced.keep_batches or 0)
