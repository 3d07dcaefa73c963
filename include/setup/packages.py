"""The virtual environment: the exact pins of the lock, this project, compiled bytecode."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from setup.errors import SetupFailed, refuse_full_disk
from setup.layout import Layout
from setup.lock import pinned_versions, refuse_unequal_engines
from setup.step import Step, key_of, last_lines, run_logged, say, write_whole

NEEDED_BYTES = 3_000_000_000

# Each would make pip or uv install somewhere else than into .venv, or refuse to.
MISLEADING = (
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_PYTHON",
    "UV_SYSTEM_PYTHON",
)


def packages_step(layout: Layout, installer: str) -> Step:
    """A new .venv with the lock's pins.

    Always from nothing: an install that was killed half-way can look complete to pip and uv, and
    a package that left the lock has to go.
    """
    pins = layout.lock.read_text(encoding="utf-8")
    count = len(pinned_versions(pins))

    def act() -> dict[str, str]:
        refuse_unequal_engines(pins)
        refuse_small_disk(shutil.disk_usage(layout.root).free, layout.root)
        make_venv(layout, installer)
        install(layout, installer, ["--no-deps", "-r", str(layout.lock)])
        return {}

    return Step(
        name="packages",
        doing=f"installing {count} pinned packages with {installer}, one to three minutes",
        key=key_of(pins, sys.version, base_python(), layout.venv),
        outputs=(layout.python,),
        act=act,
    )


def project_step(layout: Layout, installer: str, packages: Step) -> Step:
    """This repository as an editable install, so that `tidemark` is a command."""
    project = layout.root / "pyproject.toml"

    def act() -> dict[str, str]:
        install(layout, installer, ["--no-deps", "--no-build-isolation", "-e", str(layout.root)])
        return {}

    return Step(
        name="project",
        doing="installing tidemark itself",
        key=key_of(packages.key, project.read_text(encoding="utf-8")),
        outputs=(layout.venv / "bin" / "tidemark",),
        act=act,
    )


def bytecode_step(layout: Layout, packages: Step) -> Step:
    """Compile once: uv never does, and pip does not where PYTHONDONTWRITEBYTECODE is set.

    Without it every process of every run compiles what it imports again (great_expectations:
    6.5 s instead of 2.8 s). The packages' own tests, a fifth of all, are left out. Some files are
    for other versions of Python and cannot be compiled, so the exit code says nothing.
    """

    def act() -> dict[str, str]:
        command = [str(layout.python), "-m", "compileall", "-q", "-j", "0"]
        command += ["-x", "site-packages/.*/tests?/", str(layout.site_packages)]
        run_logged(command, layout.log)
        return {}

    return Step(
        name="bytecode",
        doing="compiling bytecode",
        key=key_of(packages.key),
        outputs=(layout.site_packages / "__pycache__",),
        act=act,
    )


def base_python() -> str:
    """The Python behind this one, when this one is itself in a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def refuse_small_disk(free: int, place: Path) -> None:
    if free < NEEDED_BYTES:
        raise SetupFailed(
            f"{place} has {free / 1e9:.1f} GB free, and set-up needs about "
            f"{NEEDED_BYTES / 1e9:.0f} GB (packages 1.8, class-data archive 0.2, space to work)",
            "free some space, or clone the repository to a larger disk",
        )


def make_venv(layout: Layout, installer: str) -> None:
    shutil.rmtree(layout.venv, ignore_errors=True)
    if installer == "uv":
        command = ["uv", "venv", "-q", "--no-project", "--python", base_python(), str(layout.venv)]
    else:
        command = [base_python(), "-m", "venv", str(layout.venv)]
    try:
        output = run_logged(command, layout.log, clean_environment(os.environ))
    except FileNotFoundError:
        raise SetupFailed(f"{command[0]} is not on the PATH", "leave out INSTALLER=uv") from None
    if output is not None:
        refuse_full_disk(output, str(layout.venv))
        raise SetupFailed(
            f"no virtual environment could be made with {base_python()}\n{last_lines(output)}\n",
            "install this Python's venv module (Debian, Ubuntu: apt-get install python3-venv), "
            "or name another Python: make setup PYTHON=/path/to/python3.12",
        )


def install(layout: Layout, installer: str, arguments: list[str]) -> None:
    """Install into .venv; what has to be built is built with the tools that the lock pins."""
    tools = layout.state / "build-tools.txt"
    write_whole(tools, build_tools(layout.lock.read_text(encoding="utf-8")))
    if installer == "uv":
        command = ["uv", "pip", "install", "-q", "--python", str(layout.python)]
        command += ["--build-constraints", str(tools)]
    else:
        command = [str(layout.python), "-m", "pip", "install", "--no-compile"]
        command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    env = clean_environment(os.environ) | pip_constraints(tools)
    output = run_logged(command + arguments, layout.log, env)
    if output is not None:
        refuse_full_disk(output, f"{layout.venv} and {tempfile.gettempdir()}")
        raise SetupFailed(
            f"{installer} failed; its last lines (all in {layout.log}):\n{last_lines(output)}\n",
            *install_advice(installer),
        )


def build_tools(lock: str) -> str:
    """The pins of what builds pyspark, which is a source distribution.

    Only these: given the whole lock, pip calls an unreachable registry a conflict of versions.
    """
    pins = re.findall(r"^(?:setuptools|wheel)==\S+", lock, re.MULTILINE)
    return "\n".join(pins) + "\n"


def pip_constraints(file: Path) -> dict[str, str]:
    """pip up to version 25.2 takes the first for builds, from 25.3 on the second."""
    return {"PIP_CONSTRAINT": str(file), "PIP_BUILD_CONSTRAINT": str(file)}


def install_advice(installer: str) -> tuple[str, ...]:
    if installer == "uv":
        settings = "UV_DEFAULT_INDEX or uv.toml for a mirror, HTTPS_PROXY, SSL_CERT_FILE"
        other = "or use pip and its own settings instead of uv: make setup INSTALLER=pip"
    else:
        settings = "PIP_INDEX_URL or pip.conf for a mirror, HTTPS_PROXY, PIP_CERT"
        other = "or put uv on the PATH, which is used when it is there"
    return (
        "when it could not reach the package registry (connection, name or certificate errors, "
        f"or 'no matching distribution'): check the network, and {installer}'s settings: "
        f"{settings}; then run the same command again",
        other,
    )


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what leads an installer away from .venv."""
    return {name: value for name, value in env.items() if name not in MISLEADING}


def venv_is_broken(layout: Layout) -> bool:
    """True when .venv is there and its Python is gone (upgraded, or the folder was moved)."""
    if not layout.venv.exists():
        return False
    try:
        ended = subprocess.run([layout.python, "-c", ""], capture_output=True, check=False)
    except OSError:
        return True
    return ended.returncode != 0


def refuse_to_trust_a_broken_venv(layout: Layout, stamps: Path) -> None:
    """Remove the stamp of a .venv whose Python does not run, so that it is made anew."""
    if venv_is_broken(layout):
        say("the Python of .venv does not run any more: .venv is made anew")
        (stamps / "packages.json").unlink(missing_ok=True)
