"""A Dag for each valid file in the folder of pipelines, for Airflow to find."""

from __future__ import annotations

from tidemark.airflow import pipeline_dags

globals().update(pipeline_dags())
