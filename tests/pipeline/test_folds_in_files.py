"""What is said of a fold in a pipeline's file, before anything of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.running import clicks
from tests.operators.contract.folded import FILE, SOURCE, WEIGHTS
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import FoldTable, Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid

FOLD = {
    "python": f"{FILE}:Thirds",
    "timeout": "6 minutes",
    "emits": {"what": "string", "mixed": "long"},
}


def load(folder: Path, fold: dict[str, Any] | None = None, **changes: Any) -> Pipeline:
    table = {"fold": {**FOLD, **(fold or {})}, "group_by": ["key"], **changes}
    advanced = table.pop("advanced", {})
    content = clicks(tables={"thirds": table}, advanced=advanced)
    more = {"exact": "decimal(9,2)", "price": "float", "parts": "struct<of: array<double>>"}
    content["source"]["columns"] |= more
    return pipeline_from_mapping("clicks", content, "clicks.yaml", folder=folder)


def written(folder: Path, source: str = SOURCE) -> Path:
    for path, text in ((FILE, source), ("folds/weights.py", WEIGHTS), ("folds/other.py", "")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_fold_carries_its_module_and_those_beside_it_that_it_imports(tmp_path: Path) -> None:
    table = load(written(tmp_path)).tables["thirds"]
    assert isinstance(table, FoldTable)
    assert table.code == {FILE: SOURCE, "folds/weights.py": WEIGHTS}
    assert table.output_mode == "append"


def test_a_pipeline_with_a_fold_is_read_back_from_its_contract_with_its_code(
    tmp_path: Path,
) -> None:
    pipeline = load(written(tmp_path))
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


@pytest.mark.parametrize(
    ("fold", "changes", "said"),
    [
        ({"python": "folds/third.py:Thirds"}, {}, "did you mean `folds/thirds.py`?"),
        ({"python": "../thirds.py:Thirds"}, {}, "leads out of the folder of the pipelines' files"),
        ({"python": "/etc/x.py:Thirds"}, {}, "leads out of the folder of the pipelines' files"),
        ({"python": "folds/thirds.py"}, {}, "is not FILE:Class"),
        ({"python": f"{FILE}:Third"}, {}, "has no class `Third`"),
        ({"timeout": "6"}, {}, "fold.timeout"),
        ({"timeout": "200 years"}, {}, "fold.timeout"),
        ({"timeout": "3651 days"}, {}, "is longer than 3650 days"),
        ({"order_by": ["amuont"]}, {}, "Did you mean `amount`?"),
        ({"emits": {"what": "text"}}, {}, "`text` is not a type here"),
        ({"emits": {"what": "map<string,int>"}}, {}, "is no type that a fold can put out"),
        ({"emits": {"rows": "long"}}, {}, "is kept for a column of the platform"),
        ({"emits": {"number": "long"}}, {}, "which of an episode's outputs a row is"),
        ({"emits": {"key": "long"}}, {}, "has the same name as the key `key`"),
        ({}, {"group_by": []}, "folds need `group_by`"),
        ({}, {"group_by": ["kye"]}, "Did you mean `key`?"),
        ({"order_by": ["at", "Amount"]}, {}, "`Amount`: is written `amount` in the source"),
        ({}, {"group_by": ["Key"]}, "`Key`: is written `key` in the source"),
        ({}, {"group_by": ["exact", "price"]}, "is a float or a double"),
        ({}, {"group_by": ["parts"]}, "is an array, a map or a struct"),
        ({}, {"output_mode": "update"}, "is not possible for folds: an output is emitted once"),
        ({}, {"output_mode": "complete"}, "is not possible for folds"),
        ({}, {"measures": {"n": "count(*)"}}, "what the class puts out stands in `fold.emits`"),
        ({}, {"code": {"a": "b"}}, "is not a known key"),
        ({}, {"window": {"length": "1 hour"}}, "is not a known key"),
        ({}, {"advanced": {"state": {"store": "memory"}}}, "Spark has timers in RocksDB only"),
    ],
)
def test_what_a_fold_cannot_be_is_said_in_plain_words(
    tmp_path: Path, fold: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(PipelineFileInvalid) as found:
        load(written(tmp_path), fold, **changes)
    assert said in str(found.value)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("def on_timeout", "def at_timeout", "Thirds has no `on_timeout(self, state)`"),
        ("def step(self, state: Seen,", "def step(self,", "`Thirds.step` takes 2 arguments"),
        ("class Thirds:", "class Thirds(:", "is no Python: folds/thirds.py, line 19"),
        ("from weights", "from .weights", "a module beside it is imported by its name alone"),
    ],
)
def test_what_a_class_lacks_is_said_without_running_it(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    with pytest.raises(PipelineFileInvalid) as found:
        load(written(tmp_path, SOURCE.replace(before, after)))
    assert said in str(found.value)


def test_a_link_out_of_the_folder_is_no_way_out(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside")
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "folds").symlink_to(outside / "folds")
    with pytest.raises(PipelineFileInvalid, match="by a link"):
        load(folder)
