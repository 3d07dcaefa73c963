"""Airflow's connections, for sources that name one in the settings."""

from __future__ import annotations

import os

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from tidemark.pipeline.settings.connections import airflow_variable
from tidemark.pipeline.settings.settings import Settings


def hand_down_connections(settings: Settings) -> None:
    """Set the variable of each Airflow connection that the settings name, for this task and what
    it starts: Airflow may keep it elsewhere (its database, a secrets backend). One that it does
    not have is told by whoever needs it."""
    for one in settings.connections.values():
        if one.airflow is None or airflow_variable(one.airflow) in os.environ:
            continue
        try:
            found = Connection.get(one.airflow)
        except AirflowNotFoundException:
            continue
        os.environ[airflow_variable(one.airflow)] = found.as_json()
