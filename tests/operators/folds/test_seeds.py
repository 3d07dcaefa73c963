"""Folds whose outputs come in the order of a set: whoever looks at one says so."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from ruamel.yaml import YAML

from tests.kit.running import clicks
from tests.operators.contract.folded import FILE, SOURCE, WEIGHTS, folds
from tests.operators.folds.test_folding import at
from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.tried import not_deterministic
from tidemark.operators.folds.validated import fold_faults
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.testing import FoldFailed, fold

PUTS_OUT = 'yield {"what": "third", "mixed": state.mixed, "since": state.first}'
SET = SOURCE.replace(
    PUTS_OUT, 'yield {"what": " ".join({f"{row[\'amount\']}-{n}" for n in range(9)})}'
)
SORTED = SET.replace("{f\"{row['amount']}-{n}\" for n in range(9)}",
                     "sorted({f\"{row['amount']}-{n}\" for n in range(9)})")  # fmt: skip
EMITS = folds().fold.emits


def kit(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    name: str,
    keys: Sequence[str] = ("a",),
) -> list[Any]:
    """What `tidemark.testing` says of a class in a file of its own."""
    (folder / f"{name}.py").write_text(source)
    (folder / "weights.py").write_text(WEIGHTS)
    monkeypatch.syspath_prepend(folder)
    rows = [{"at": at(n), "key": key, "amount": n} for key in keys for n in range(4)]
    kind = importlib.import_module(name).Thirds
    return fold(kind, rows, time="at", timeout="6 minutes", emits=EMITS, key="key")


def test_the_kit_refuses_the_order_of_a_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(kit(tmp_path, monkeypatch, SORTED, "in_order")) == 2
    with pytest.raises(FoldFailed, match=r"not deterministic: .* the order of a set"):
        kit(tmp_path, monkeypatch, SET, "by_a_set")


def test_the_kit_takes_a_member_of_an_enum_for_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a seed has the class of another module, which this one cannot load."""
    enum = "from enum import StrEnum\n\n\nclass What(StrEnum):\n    THIRD = 'third'\n"
    source = enum + SOURCE.replace('{"what": "third"', '{"what": What.THIRD').replace(
        "from __future__ import annotations", ""
    )
    found = kit(tmp_path, monkeypatch, source, "by_an_enum", keys=("a", "b"))
    assert {repr(one["what"]) for one in found} == {"'third'", "'left'"}


def test_a_trial_says_it_of_its_rows(tmp_path: Path) -> None:
    rows = {"at": [at(0), at(1), at(2)], "key": ["a", "a", "a"], "amount": [1, 2, 3]}
    write_deltalake(str(tmp_path), pa.table(rows))
    said = {}
    for source in (SORTED, SET):
        operator = replace(Folds("at", folds(source=source)), columns=("amount",))
        said[source] = list(not_deterministic(operator, DeltaTable(str(tmp_path))))
    assert said[SORTED] == []
    assert "the order of a set" in said[SET][0]


def with_fold(folder: Path, source: str) -> Pipeline:
    """A pipeline's file, and the class beside it."""
    (folder / "folds").mkdir(parents=True)
    (folder / FILE).write_text(source)
    (folder / "folds" / "weights.py").write_text(WEIGHTS)
    table = folds().model_dump(mode="json", exclude={"code"}, exclude_unset=True)
    YAML().dump(clicks(tables={"thirds": table}), folder / "clicks.yaml")
    return load_pipeline(folder / "clicks.yaml")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (SOURCE, None),
        (SORTED, None),
        (SET, "the order of a set"),
        (SOURCE.replace(") -> Seen:", "):"), "`start` says that it returns nothing"),
        (SOURCE.replace("class Thirds:", "raise ValueError('no')\nclass Thirds:"), "imported"),
        (SOURCE.replace("state.rows += 1", "import no_such_module"), "no_such_module"),
        (SOURCE.replace("state.rows += 1", "raise KeyError"), None),
        (SOURCE.replace("state.rows += 1", "import time; state.mixed = time.time_ns()"), "clock"),
    ],
)
def test_without_rows_it_is_said_what_every_run_would_refuse(
    tmp_path: Path, source: str, said: str | None
) -> None:
    faults = list(fold_faults(with_fold(tmp_path, source)))
    assert len(faults) == (said is not None)
    if said:
        assert faults[0].startswith("clicks: tables.thirds.fold.python: ")
        assert said in faults[0]


@pytest.mark.slow
def test_a_class_that_ends_the_other_process_is_told_and_the_next_one_is_folded(
    tmp_path: Path,
) -> None:
    leaves = "import os; os.environ.get('PYTHONHASHSEED') == '1' and os._exit(3)"
    ends = SOURCE.replace("state.rows += 1", leaves)
    (told,) = fold_faults(with_fold(tmp_path / "ends", ends))
    assert "ended the process that folded it, with the code 3" in told
    assert not list(fold_faults(with_fold(tmp_path / "well", SOURCE)))
