"""Who is told when a pipeline's run fails, and when one succeeds again.

Airflow calls these in the Dag processor, once a Dag run has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Context

from tidemark.airflow.outcome import log_lines
from tidemark.airflow.watcher import failed_tasks
from tidemark.errors import TidemarkError
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.results.newest_result import newest_try
from tidemark.runs.results.result import RunResult

# The task that runs all pipelines of a shared Dag; no pipeline's group has a hyphen.
SHARED_STREAM = "shared-stream"
_LOG = logging.getLogger(__name__)
# Of a failed run without one: Airflow tells none that is no longer in the Dag, and of a run that
# timed out none has failed.
_NO_TASK = ("no task that is known",)
# As Airflow's own callbacks: a notifier, or a function of the context.
Callback = Callable[[Any], Any]


@dataclass(frozen=True)
class RunFacts:
    """A Dag run that ended. `result` is what its stream left, as far as it came and could be read
    from here; None otherwise. `failed` names the tasks that failed, or says that none is
    known; it is empty where the run succeeded."""

    pipeline: str
    run_id: str
    failed: tuple[str, ...]
    result: RunResult | None

    @property
    def text(self) -> str:
        """The facts for people, some lines."""
        happened = f"failed: {', '.join(self.failed)}" if self.failed else "succeeded again"
        lines = [f"{self.pipeline}: run {self.run_id} {happened}"]
        if self.result and self.result.error:
            lines.append(f"{self.result.error.type}: {self.result.error.message}")
        elif self.result:
            lines += log_lines(self.result)
        return "\n".join(lines)


@dataclass(frozen=True)
class Alert:
    """Calls each of `then` with the context of the Dag run, and its facts in it as `tidemark`."""

    then: tuple[Callback, ...]
    pipeline: str
    settings_file: str | None
    root: str | None

    def failed(self, context: Context) -> None:
        """For a Dag's `on_failure_callback`."""
        self.call(context, _failed(context) or _NO_TASK)

    def recovered(self, context: Context) -> None:
        """For a Dag's `on_success_callback`: calls nobody unless the run before failed.

        The run before is the one of the next earlier logical date; a run without one has none.
        """
        before = context["ti"].get_previous_dagrun()
        if before is not None and before.state == "failed":
            self.call(context, ())

    def call(self, context: Context, failed: tuple[str, ...]) -> None:
        """Tell of a Dag run in which these tasks failed."""
        run_id = str(context["run_id"])
        facts = RunFacts(self.pipeline, run_id, failed, self._result(run_id))
        for callback in self.then:
            try:
                callback({**context, "tidemark": facts})
            except Exception:  # noqa: BLE001  the others are still to be told
                _LOG.exception("A callback of %s failed", facts.pipeline)

    def _result(self, run_id: str) -> RunResult | None:
        """Who is told must not depend on a store that cannot be reached."""
        try:
            settings = load_settings(self.settings_file, root=self.root)
            return newest_try(self.pipeline, settings, run_id)
        except TidemarkError:
            _LOG.warning("The result of %s cannot be read", run_id, exc_info=True)
            return None


@dataclass(frozen=True)
class SharedAlert:
    """The alerts of a Dag of several pipelines: each is told of its own tasks, those of the group
    of its name, and of what they share."""

    failures: tuple[Alert, ...]
    recoveries: tuple[Alert, ...]

    def failed(self, context: Context) -> None:
        """For a Dag's `on_failure_callback`: all are told where no task says whose it is."""
        if _failed(context):
            self.ended(context)
            return
        for alert in self.failures:
            alert.call(context, _NO_TASK)

    def ended(self, context: Context) -> None:
        """For a Dag's `on_success_callback`, and for a run of which tasks failed: a pipeline may be
        well again in a run that failed because of another."""
        if "ti" not in context:
            return
        failed = failed_tasks(context)
        for alert in self.failures:
            if own := _of(alert.pipeline, failed):
                alert.call(context, own)
        well = [one for one in self.recoveries if not _of(one.pipeline, failed)]
        before = context["ti"].get_previous_dagrun() if well else None
        if before is None:
            return
        failed_before = failed_tasks(context, before.run_id)
        for alert in well:
            if _of(alert.pipeline, failed_before):
                alert.call(context, ())


def _failed(context: Context) -> tuple[str, ...]:
    return tuple(failed_tasks(context)) if "ti" in context else ()


def _of(pipeline: str, tasks: Iterable[str]) -> tuple[str, ...]:
    """Of a shared Dag's tasks those of a pipeline, and of all."""
    return tuple(one for one in tasks if one.partition(".")[0] in (pipeline, SHARED_STREAM))


def as_callbacks(given: Callback | Sequence[Callback] | None) -> tuple[Callback, ...]:
    """One callback, several or none, as Airflow takes them."""
    if given is None:
        return ()
    return (given,) if callable(given) else tuple(given)
