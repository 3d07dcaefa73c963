"""Links beside a task in Airflow's UI. Airflow asks for them when the task ends, well or badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from tidemark.airflow.validate import ValidateOperator


class DataDocsLink(BaseOperatorLink):
    """The Data Docs of the run that a task validated; no link where no expectation ran."""

    name = "Data Docs"

    def get_link(self, operator: ValidateOperator, *, ti_key: Any) -> str:  # type: ignore[override]
        return operator.data_docs or ""
