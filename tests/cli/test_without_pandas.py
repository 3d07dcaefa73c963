"""A run's own process never loads pandas and NumPy, which pyarrow would."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.kit.running import clicks
from tidemark.cli import many, run
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


@pytest.mark.slow
def test_pyarrow_and_duckdb_work_without_them() -> None:
    assert printed("") == "[(3,)] numpy pandas\n"
    assert printed("leave_pandas_out()") == "[(3,)]\n"


EXPECTATION = '{"warn": {"ExpectColumnMaxToBeBetween": {"column": "events", "max_value": 9}}}'
# Not by the kit, which imports pyarrow.
OF_A_RUN = """
from tidemark.cli.without_pandas import leave_pandas_out_of_a_run
from tidemark.pipeline.load import pipeline_from_mapping
content = {content!r}
content["tables"]["per_10m"]["checks"] = [{check}]
leave_pandas_out_of_a_run(pipeline_from_mapping("clicks", content))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "loaded"), [('{"warn": "events < 9"}', ""), (EXPECTATION, " numpy pandas")]
)
def test_a_run_keeps_them_only_where_its_checks_need_them(check: str, loaded: str) -> None:
    program = OF_A_RUN.format(check=check, content=clicks())
    assert printed(program) == f"[(3,)]{loaded}\n"


def test_what_a_run_without_spark_imports_needs_neither() -> None:
    imported = [
        node.module
        for command in (run, many)
        for node in ast.walk(ast.parse(inspect.getsource(command)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidemark.")
    ]
    assert "tidemark.runs.without_spark" in imported
    assert printed(f"leave_pandas_out(); import {', '.join(map(str, imported))}") == "[(3,)]\n"


def test_a_process_that_has_loaded_pyarrow_keeps_its_pandas() -> None:
    assert pa.array([1]) is not None
    leave_pandas_out()
    assert importlib.util.find_spec("pandas") is not None
