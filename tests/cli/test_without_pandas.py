"""A run's own process never loads pandas and NumPy, which pyarrow would."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pyarrow as pa

from tidemark.cli.without_pandas import leave_pandas_out

PROGRAM = """
import sys
from tidemark.cli.without_pandas import leave_pandas_out
{call}
import duckdb, pyarrow as pa
numbers = pa.table({{"a": pa.array([1, 2])}})
loaded = sorted({{"numpy", "pandas"}} & {{*sys.modules}})
print(duckdb.sql("SELECT sum(a) FROM numbers").fetchall(), *loaded)
"""


def printed(call: str) -> str:
    program = PROGRAM.format(call=call)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_pyarrow_and_duckdb_work_without_them() -> None:
    assert printed("") == "[(3,)] numpy pandas\n"
    assert printed("leave_pandas_out()") == "[(3,)]\n"


def test_a_process_that_has_loaded_pyarrow_keeps_its_pandas() -> None:
    assert pa.array([1]) is not None
    leave_pandas_out()
    assert importlib.util.find_spec("pandas") is not None
