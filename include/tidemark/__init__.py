"""Streaming on a schedule, with every row accounted for: Airflow, Spark and Delta."""

from typing import TYPE_CHECKING, Any

from tidemark.version import __version__

if TYPE_CHECKING:
    from tidemark.gold.reading import dataset as dataset
    from tidemark.gold.reading import read as read

__all__ = ("__version__", "dataset", "read")


def __getattr__(name: str) -> Any:
    """`read` and `dataset` bring Arrow and delta-rs, which most of what imports us does without."""
    if name not in ("dataset", "read"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidemark.gold import reading

    return getattr(reading, name)
