"""No Dag: fails to import while a pipeline file is invalid, so that Airflow shows which and why."""

from __future__ import annotations

from tidemark.airflow import raise_invalid_pipelines

raise_invalid_pipelines()
