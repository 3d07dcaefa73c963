"""Who may see which pipelines in Airflow: by its login, and by the Dags that they may read.

`core_api.security` is no module that Airflow promises to keep; what it is needed for stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from fastapi import Depends
from sqlalchemy import select

from tidemark.pipeline.names import SHARED_PREFIX

__all__ = ["DagAccess", "dag_access", "get_user"]


@dataclass(frozen=True)
class DagAccess:
    """Of all Dags that Airflow knows, those that somebody may read."""

    known: frozenset[str]
    readable: frozenset[str]

    def sees(self, pipeline: str, dag: str | None) -> bool:
        """Whoever may read its Dag: the one that its last run noted, unless others share that, or
        that has its name. Where no such Dag is known: whoever may read every Dag."""
        of = pipeline if dag is None or dag.startswith(SHARED_PREFIX) else dag
        return of in self.readable if of in self.known else self.known <= self.readable

    def opens(self, dag: str) -> bool:
        return dag in self.readable


def dag_access(user: Annotated[Any, Depends(get_user)]) -> DagAccess:
    """FastAPI's dependency: 401 without a login. Airflow is asked once a request."""
    with create_session() as session:
        bundled = select(DagModel.dag_id).join(
            DagBundleModel, DagModel.bundle_name == DagBundleModel.name
        )
        known = frozenset(session.scalars(bundled))
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return DagAccess(known, frozenset(readable))
