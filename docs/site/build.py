"""`make docs`: the pages as a site. Run in the project's environment; Sphinx has one of its own.

What Sphinx reads is a copy, made anew each time, in which the pages lie as in the repository.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import typer
import typer.cli

from docs.site.reference import reference_of
from tidemark.cli.main import app

REPOSITORY = Path(__file__).parents[2]
CONTENTS = "docs/contents.md"
OF_ROOT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
# Made here, and the section of the order that each ends.
MADE = {"Describe": "reference/pipeline", "Run": "reference/command"}

_SECTION = re.compile(r"^## (.+)\n\n((?:- .+\n)+)", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)]+)\.md\)")


def sections(contents: str) -> dict[str, list[str]]:
    """The pages of each section of the order, as they lie below the repository, without `.md`."""
    return {
        title: [str(Path(f"docs/{page}")).replace("docs/../", "") for page in _LINK.findall(lines)]
        for title, lines in _SECTION.findall(contents)
    }


def index_of(contents: str) -> str:
    """The first page: the order, as Sphinx's table of contents."""
    trees = [
        f"## {title}\n\n```{{toctree}}\n:caption: {title}\n:maxdepth: 1\n\n"
        + "\n".join([*pages, *([MADE[title]] if title in MADE else [])])
        + "\n```\n"
        for title, pages in sections(contents).items()
    ]
    trees.append("```{toctree}\n:hidden:\n\ndocs/contents\n```\n")
    return "# Tidemark\n\nStreaming on a schedule, with every row accounted for.\n\n" + "\n".join(
        trees
    )


def stage(source: Path) -> None:
    """Copy the pages, and make those that are made."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(REPOSITORY / "docs", source / "docs", ignore=shutil.ignore_patterns("site"))
    for name in OF_ROOT:
        shutil.copy(REPOSITORY / name, source)
    (source / "reference").mkdir()
    schema = (REPOSITORY / "include" / "pipelines" / "pipeline.schema.json").read_text("utf-8")
    (source / "reference" / "pipeline.md").write_text(reference_of(json.loads(schema)), "utf-8")
    (source / "reference" / "command.md").write_text(command_page(), "utf-8")
    (source / "index.md").write_text(index_of((source / CONTENTS).read_text("utf-8")), "utf-8")


def command_page() -> str:
    """The reference of the command, by what Typer has for it."""
    command = typer.main.get_command(app)
    context = typer.Context(command)
    told = typer.cli.get_docs_for_click(obj=command, ctx=context, name="tidemark")
    return told.replace("# `tidemark`", "# Reference: the command `tidemark`", 1)


def main(sphinx: str, made: Path) -> int:
    """Build all of it, and end with Sphinx's code: each warning, as of a link, is an error."""
    stage(made / "source")
    command = [sphinx, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-E"]
    command += ["-c", str(Path(__file__).parent), str(made / "source"), str(made / "html")]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
