"""Streaming on a schedule, with every row accounted for: Airflow, Spark and Delta."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemark.version import __version__

if TYPE_CHECKING:
    from tidemark.gold.reading import dataset as dataset
    from tidemark.gold.reading import read as read
    from tidemark.notebook import load as load
    from tidemark.notebook import write as write
    from tidemark.storage.ops_of_all import ops as ops
    from tidemark.story.explain import explain as explain

__all__ = ("__version__", "dataset", "explain", "load", "ops", "read", "write")
_MODULES = {
    "explain": "tidemark.story.explain",
    "load": "tidemark.notebook",
    "ops": "tidemark.storage.ops_of_all",
    "write": "tidemark.notebook",
}


def __getattr__(name: str) -> Any:
    """They bring pydantic, or Arrow and delta-rs, which most of what imports us does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "tidemark.gold.reading")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
