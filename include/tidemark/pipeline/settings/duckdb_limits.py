"""The settings of DuckDB, which compares, counts and publishes beside Spark."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator


class DuckDBLimits(BaseModel):
    """What DuckDB may take in a process, by its own names.

    `memory_limit`: as DuckDB writes sizes (`4GB`), or a share of the machine's memory, or of the
    container's. What takes more goes to a folder of each process below `temp_directory`, an
    absolute path; without one, among the machine's temporary files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_limit: str = Field(
        default="50%", pattern=r"^(?:[1-9]\d?%|[1-9]\d*(?:\.\d+)? ?(?:[KMGT]i?B))$"
    )
    temp_directory: str | None = None

    @field_validator("temp_directory")
    @classmethod
    def _absolute(cls, folder: str | None) -> str | None:
        if folder is not None and not Path(folder).is_absolute():
            raise ValueError(f"`{folder}` is not absolute; give an absolute path")
        return folder
