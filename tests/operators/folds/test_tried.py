"""A fold tried over the rows of a trial's bronze."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.operators.contract.folded import SOURCE, folds
from tests.operators.folds.test_folding import BASED, at
from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.tried import not_deterministic


def found_of(folder: Path, source: str) -> list[str]:
    """What is said of two keys' rows; bronze lacks a column that the file has."""
    rows = {"at": [at(0), at(1), at(20), at(21), None], "key": ["a", "a", "b", "b", "b"]}
    maps = pa.array([[("x", 1)]] * 5, pa.map_(pa.string(), pa.int64()))
    table = pa.table({**rows, "amount": [1, 2, 3, 4, 5], "parts": maps})
    write_deltalake(str(folder), table)
    operator = replace(Folds("at", folds(source=source)), columns=("amount", "newer"))
    return list(not_deterministic(operator, DeltaTable(str(folder))))


def test_what_a_module_keeps_of_the_first_key_is_said_with_the_other_one(tmp_path: Path) -> None:
    assert found_of(tmp_path / "well", SOURCE) == []
    (found,) = found_of(tmp_path / "based", BASED)
    assert found.startswith("key=b: folds/thirds.py:Thirds is not deterministic")


def test_a_class_of_a_trial_has_maps_as_dicts_and_newer_columns_as_null(tmp_path: Path) -> None:
    seen = 'row["parts"] == {"x": 1} and row["newer"] is None'
    source = SOURCE.replace("state.rows += 1", f"state.rows += 1\n        assert {seen}")
    source = source.replace("* 31 + weight(row)", "+ id(self)")
    assert len(found_of(tmp_path, source)) == 2
