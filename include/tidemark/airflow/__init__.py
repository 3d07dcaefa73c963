"""Airflow: a Dag for each pipeline file. The only package that imports Airflow.

Its public API is what `dags/` uses; an Airflow that people already have needs no more. What takes
long to load (delta-rs, Arrow, DuckDB, the readers of checkpoints) is imported within the functions
that use it: parsing a Dag must not load it.
"""

from __future__ import annotations

from tidemark.airflow.alerts import RunFacts
from tidemark.airflow.assets import gold_asset
from tidemark.airflow.dags import pipeline_dags, raise_invalid_pipelines
from tidemark.airflow.group import PipelineTaskGroup

__all__ = ["PipelineTaskGroup", "RunFacts", "gold_asset", "pipeline_dags",
           "raise_invalid_pipelines"]  # fmt: skip
