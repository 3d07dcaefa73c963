"""Keep pandas and NumPy out of a process that does not use them.

pyarrow imports NumPy with itself and pandas with the first array that it makes, wherever they are
installed: half a CPU second of a run that finds nothing new and should take one. Without them it
works as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import chain
from types import ModuleType

from tidemark.pipeline.model import Pipeline


class _Spared(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in ("numpy", "pandas"):
            raise ModuleNotFoundError(f"{fullname} is kept out of this process by {__name__}")
        return None


def leave_pandas_out_of_a_run(*pipelines: Pipeline) -> None:
    """Unless the checks of one need Great Expectations, which is made of them."""
    tables = chain.from_iterable(one.tables.values() for one in pipelines)
    if not any(table.names_expectations for table in tables):
        leave_pandas_out()


def leave_pandas_out() -> None:
    """From now on both count as not installed; nothing where pyarrow is loaded already, which then
    is a process with other business too."""
    if "pyarrow" not in sys.modules:
        sys.meta_path.insert(0, _Spared())
