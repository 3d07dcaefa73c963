"""The page as Airflow's API server has it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Annotated

from fastapi import Depends, FastAPI, Response
from fastapi.responses import RedirectResponse

from tidemark.airflow.page_access import DagAccess, dag_access, pipeline_of
from tidemark.page.app import page_app
from tidemark.pipeline.settings.settings import load_settings
