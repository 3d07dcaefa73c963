"""The parameter by which somebody publishes in spite of checks that fail."""

from __future__ import annotations

from airflow.sdk import Context


def accept_arguments(context: Context) -> list[str]:
    """The reason to publish in spite of failed checks, and who gave it with the Dag run."""
    reason = (context["params"].get("accept") or "").strip()
    if not reason:
        return []
    by = context["dag_run"].triggering_user_name or "unknown"
    return ["--accept", f"--reason={reason}", f"--by={by}, by Airflow"]
