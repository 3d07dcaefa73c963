"""What forges and hooks run is what `make lint` and `.ci/run` run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

REPOSITORY = Path(__file__).parents[1]
WORKFLOW = REPOSITORY / ".github" / "workflows" / "ci.yaml"


def test_the_hooks_run_what_make_lint_runs_and_fetch_nothing() -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    linted = re.findall(r"\$\(IN_ENVIRONMENT\) (.+)", recipe)
    told = YAML(typ="safe").load(REPOSITORY / ".pre-commit-config.yaml")
    (repo,) = told["repos"]
    assert repo["repo"] == "local"
    assert {hook["language"] for hook in repo["hooks"]} == {"system"}
    entries = [
        re.sub(r"^sh -c '. ./.tidemark/env && (.+)'$", r"\1", h["entry"]) for h in repo["hooks"]
    ]
    assert entries == linted


def test_the_workflow_is_one_and_runs_what_has_to_pass_before_a_change_lands() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
    ]
    ran = subprocess.run([*command, str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    jobs = YAML(typ="safe").load(WORKFLOW)["jobs"].values()
    steps = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert ".ci/run" in steps
    assert all(os.access(REPOSITORY / step, os.X_OK) for step in steps if step.startswith("."))
