"""Which pipelines are due: those whose schedule has named a time since their newest run."""

from __future__ import annotations

from datetime import datetime

from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.schedules import last_time
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.generations import REWIND
from tidemark.runs.status.recent_runs import recent_runs
from tidemark.runs.wall_clock import TOLERATED
from tidemark.storage.warehouse import Warehouse


def is_due(pipeline: Pipeline, settings: Settings, now: datetime, clock: datetime) -> bool:
    """Is a pipeline to be run, by a run that stands for `now`? Without a schedule it never is; one
    that has not run is, and so is one whose runs cannot be read, or stand for times that are still
    to come by this machine's clock, for the run to say why. Times are in UTC.

    A run counts that failed, too: its next one is due at the next time. Of a run that was killed
    there is no row.
    """
    if pipeline.schedule is None:
        return False
    try:
        table = Warehouse.of(pipeline.name, settings).runs.open()
        # A rewind reads nothing, so it puts no run off.
        newest = recent_runs(table, pipeline.name, 1, (REWIND,), clock)
    except Exception:  # noqa: BLE001  whatever it is, the run says it
        return True
    # What is known of an interrupted run is when it began.
    stood_for = [run.scheduled_at or run.started_at for run in newest]
    if not stood_for or stood_for[0] > clock + TOLERATED:
        return True
    return stood_for[0] < last_time(pipeline.schedule, now)
