"""The stories of the pages, typed line by line in a clone: what they print is on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.pages import page
from tests.kit.clone import set_up_clone, typed
from tests.kit.kafka import started_broker

pytestmark = [pytest.mark.process, pytest.mark.long]

# What is another at each time, in the order in which it is looked for.
_CHANGING = (
    (r"manual__\S+?Z", "RUN"),
    (r"part-\d+-[\w-]+\.snappy\.parquet", "FILE"),
    (r"id [\w/+-]{22}(?=[,)])", "ID"),
    (r"20\d\d-\d\d-\d\dT[\d:.]+Z(?<!2026-03-01T.{9})", "NOW"),
    (r"\(\S+@[^\s)]+\)|by \S+@\S+:", "WHO"),
    (r"(seconds|result file): .*", r"\1"),
    (r"[─\s]+", " "),
)


def told(text: str) -> list[str]:
    """Its lines, without how tables are set and what is another at each time."""
    for pattern, put in _CHANGING:
        text = "\n".join(re.sub(pattern, put, line).strip() for line in text.splitlines())
    return [line for line in text.splitlines() if line]


def story(text: str, typed_as: str = "sh") -> list[tuple[str, str]]:
    """What is typed, and what it prints where the page shows that."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)
    following = [*blocks[1:], ("sh", "")]
    return [
        (code, shown if not kind else "")
        for (language, code), (kind, shown) in zip(blocks, following, strict=True)
        if language == typed_as
    ]


def live(clone: Path, text: str, changed: Callable[[str], str] = lambda code: code) -> None:
    """All lines in one shell; each line that the page shows is printed, in its order."""
    steps = [(changed(code), shown) for code, shown in story(text)]
    lines = "".join(f"{code}echo @@{n}@@\n" for n, (code, _) in enumerate(steps))
    ended = typed(clone, f"export COLUMNS=160\nexec 2>&1\n{lines}", stop=False)
    printed = re.split(r"@@\d+@@\n", ended.stdout)
    assert len(printed) == len(steps) + 1, ended.stdout
    for (code, shown), output in zip(steps, printed, strict=False):
        check_shown(code, shown, output)


def check_shown(code: str, shown: str, output: str) -> None:
    left = iter(told(output))
    missing = [line for line in told(shown) if line not in left]
    assert not missing, f"{code}\nlacks {missing} in\n{output}"


def section(text: str, *titles: str) -> str:
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return "".join(part for part in parts if part.splitlines()[0] in titles)


def test_the_readme_runs_a_sample_and_tells_how_it_stands(tmp_path: Path) -> None:
    clone = set_up_clone(tmp_path, "access_log")
    readme = page("../README.md")
    live(clone, section(readme, "Run a pipeline yourself"))
    (read,) = re.findall(r"```python\n(.*?)```", section(readme, "Read the tables"), re.DOTALL)
    (clone / "read.py").write_text(read)
    assert "2015-05-18 00:00:00+00:00" in typed(clone, "python read.py").stdout
    asked = section(readme, "How do they stand, and where did that row go?")
    told_of_it = typed(clone, "".join(code for code, _ in story(asked))).stdout
    assert re.search(r"10,?000 read = 10,?000 accepted \+ 0 rejected", told_of_it), told_of_it


def test_the_story_of_a_delta_table_is_as_the_page_tells_it(tmp_path: Path) -> None:
    live(set_up_clone(tmp_path), page("delta-source.md").split("\n## ")[0])


def test_the_story_of_a_topic_is_as_the_page_tells_it(tmp_path: Path) -> None:
    clone = set_up_clone(tmp_path)
    with started_broker(auto_create_topics_enable="true") as broker:
        live(
            clone,
            section(page("kafka.md"), "In five minutes"),
            lambda code: code.replace("127.0.0.1:24820", broker.servers).replace("make kafka", ":"),
        )


def test_a_pipeline_starts_over_and_is_removed_as_the_page_tells_it(tmp_path: Path) -> None:
    clone = set_up_clone(tmp_path, "access_log")
    typed(clone, "mkdir -p warehouse/landing\ncp -r include/samples/access_log warehouse/landing/")
    typed(clone, "tidemark run access_log")
    first = clone / "warehouse" / "access_log" / "bronze"
    removed = set(first.glob("**/*.parquet"))

    over, gone = (story(section(page("start-over.md"), one)) for one in ("Start over", "Remove it"))
    told = typed(clone, "".join(code for code, _ in over))
    assert told.stdout.count("gold equals bronze") == 2
    assert not removed & set(first.glob("**/*.parquet"))
    ledger = typed(clone, "tidemark ledger show access_log").stdout
    assert re.search(r"10,?000 read = 10,?000 accepted \+ 0 rejected", ledger), ledger
    assert not (clone / "warehouse" / "access_log.before").exists()

    assert "There is no pipeline yet" in typed(clone, "".join(code for code, _ in gone)).stdout
    assert not first.exists()
    assert (clone / "warehouse" / "landing" / "access_log").is_dir()


def test_the_story_of_a_notebook_is_as_the_page_tells_it(tmp_path: Path) -> None:
    clone, text = set_up_clone(tmp_path), section(page("notebook.md"), "In five minutes")
    live(clone, text)
    cells = story(text, "python")
    code = "".join(f"{code}print('@@', flush=True)\n" for code, _ in cells)
    (clone / "notebook.py").write_text(code)
    printed = typed(clone, "COLUMNS=160 python notebook.py").stdout.split("@@\n")
    for (code, shown), output in zip(cells, printed[:-1], strict=True):
        check_shown(code, shown.replace("…\n", ""), output)
    assert "good (tables: by_day)" in typed(clone, "tidemark validate verbs").stdout


def test_the_stories_of_formats_are_as_their_pages_tell_them(tmp_path: Path) -> None:
    clone = set_up_clone(tmp_path)
    for name in ("csv", "json-documents", "parquet", "avro"):
        live(clone, section(page(f"{name}.md"), "In five minutes"))
