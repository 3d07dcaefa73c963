"""The Dockerfile, as far as it can be judged without building it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*(?:\\\n.*)*)", DOCKERFILE, re.MULTILINE)


def told(instruction: str) -> list[str]:
    return [text for name, text in INSTRUCTIONS if name == instruction]


def test_it_needs_no_other_image_than_its_base() -> None:
    assert told("ARG") == ["BASE_IMAGE=python:3.11-slim-bookworm"]
    assert told("FROM") == ["${BASE_IMAGE}"]
    assert not re.search(r"^#\s*(syntax|escape|check)\s*=", DOCKERFILE, re.MULTILINE)
    assert "--from" not in DOCKERFILE
    assert "--mount" not in DOCKERFILE  # the classic builder does not know it


def test_no_secret_registry_or_proxy_can_be_in_a_layer() -> None:
    assert not re.search(r"(?i)password|secret|token|index.url|_proxy|https?://", DOCKERFILE)


def test_packages_come_from_the_lock_alone_by_the_repositorys_own_set_up() -> None:
    copied = told("COPY")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [project["readme"], *project["license-files"]]
    assert copied[0].split() == ["pyproject.toml", *named, "./"]
    assert copied[1].split() == ["requirements-runtime.txt", "requirements.txt"]
    (set_up,) = [text for text in told("RUN") if "setup.sh" in text]
    assert INSTRUCTIONS.index(("RUN", set_up)) < INSTRUCTIONS.index(("COPY", "include include"))
    assert not re.search(r"pip3? install|uv pip", DOCKERFILE)


def test_what_runs_in_it_is_not_root() -> None:
    assert told("USER") == ["50000:0"]
    last = [name for name, _ in INSTRUCTIONS].index("USER")
    assert "RUN" not in [name for name, _ in INSTRUCTIONS[last:]]


def test_nothing_goes_into_the_context_but_what_is_named() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    named = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    assert all((REPOSITORY / name).exists() for name in named)
    copied = {word for text in told("COPY") for word in text.split()[:-1]}
    for name in copied:
        assert any((name + "/").startswith(n + "/") or n.startswith(name + "/") for n in named)
