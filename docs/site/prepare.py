"""Lay out the pages for Sphinx: docs/ and the project's own pages in one folder, with the reference
of the pipeline's file (its schema) and of the command (Typer's own text of it).

`python docs/site/prepare.py FOLDER`: the folder is made anew.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
PROJECT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_OF_PROJECT = re.compile(r"\]\((?:\.\./)?(README|CONTRIBUTING|CHANGELOG|SECURITY)\.md")
_LICENSE = re.compile(r"\[([^]]*)\]\(LICENSE\)")


def lay_out(folder: Path) -> None:
    """Copy the pages to `folder`, each link to where its page lies there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("site"))
    shutil.copytree(DOCS / "site", folder, dirs_exist_ok=True)
    for name in PROJECT:
        text = (DOCS.parent / name).read_text("utf-8").replace("](docs/", "](")
        (folder / name.lower()).write_text(_LICENSE.sub(r"\1", text), "utf-8")
    for page in folder.glob("*.md"):
        text = page.read_text("utf-8").replace("](decisions)", "](decisions/one-judge.md)")
        text = _OF_PROJECT.sub(lambda found: f"]({found[1].lower()}.md", text)
        page.write_text(text, "utf-8")
    schema = json.loads((DOCS.parent / "include/pipelines/pipeline.schema.json").read_text("utf-8"))
    (folder / "pipeline.schema.json").write_text(json.dumps(_readable(schema)), "utf-8")
    command = [sys.executable, "-m", "typer", "tidemark.cli.main", "utils", "docs"]
    command += ["--name", "tidemark", "--title", "The command", "--output", str(folder)]
    subprocess.run([*command[:-1], str(folder / "command.md")], check=True, capture_output=True)


def _readable(node: Any) -> Any:
    """A schema without what is for machines: null beside a type (a key may be left out), defaults
    that are null, patterns that a description tells; with examples in that description."""
    if isinstance(node, list):
        return [_readable(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {name: _readable(one) for name, one in node.items()}
    if isinstance(kinds := found.get("anyOf"), list):
        kinds = [one for one in kinds if one != {"type": "null"}]
        found = (
            {**kinds[0], **{n: one for n, one in found.items() if n != "anyOf"}}
            if len(kinds) == 1
            else {**found, "anyOf": kinds}
        )
    if examples := found.pop("examples", None):
        told = ", ".join(f"`{one}`" for one in examples)
        found["description"] = f"{found.get('description', '')} (for instance {told})".strip()
    left = {"pattern"} if "description" in found else set()
    if "default" in found and found["default"] is None:
        left.add("default")
    return {name: one for name, one in found.items() if name not in left}


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
