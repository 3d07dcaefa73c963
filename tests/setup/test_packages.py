from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from setup.errors import SetupFailed, refuse_full_disk
from setup.layout import Layout, refuse_unusable_path
from setup.packages import (
    build_tools,
    clean_environment,
    install,
    packages_step,
    refuse_small_disk,
    refuse_to_trust_a_broken_venv,
    venv_is_broken,
)


def test_a_disk_with_too_little_room_is_refused_with_both_numbers() -> None:
    with pytest.raises(SetupFailed, match=r"/repo has 1\.2 GB free, and set-up needs about 3 GB"):
        refuse_small_disk(1_200_000_000, Path("/repo"))
    refuse_small_disk(3_000_000_000, Path("/repo"))


def test_a_disk_that_became_full_is_told_as_such() -> None:
    with pytest.raises(SetupFailed, match="the disk became full while working on /venv"):
        refuse_full_disk("OSError: [Errno 28] No space left on device: 'x'", "/venv")
    refuse_full_disk("Connection refused", "/venv")


@pytest.mark.parametrize("name", ["with space", "a:b", "it's", "50%"])
def test_a_path_that_spark_cannot_work_with_is_refused(name: str) -> None:
    with pytest.raises(SetupFailed, match="move or clone") as failed:
        refuse_unusable_path(Path("/home/me", name))
    assert name in str(failed.value) or repr(name)[1:-1] in str(failed.value)


def test_a_usual_path_is_not_refused() -> None:
    refuse_unusable_path(Path("/home/me/src/tide-mark_2.0+x@y~z/é"))


@pytest.mark.slow
def test_a_registry_that_cannot_be_reached_is_told_with_what_to_do(
    installed: Layout, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Port 9 of this machine takes no connection, whatever the machine."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/index")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    layout.state.mkdir(parents=True)
    layout.lock.write_text("tidemark-has-no-such-package==1\n")
    subprocess.run([sys.executable, "-m", "venv", str(layout.venv)], check=True)
    with pytest.raises(SetupFailed) as failed:
        install(layout, "pip", ["-r", str(layout.lock)])
    assert "pip failed; its last lines" in str(failed.value)
    assert "No matching distribution" in str(failed.value)
    assert "PIP_INDEX_URL or pip.conf for a mirror" in str(failed.value)


def test_the_tools_that_build_are_those_of_the_lock(installed: Layout) -> None:
    pins = build_tools(installed.lock.read_text(encoding="utf-8"))
    assert re.fullmatch(r"setuptools==\S+\nwheel==\S+\n", pins)


def test_what_leads_an_installer_elsewhere_is_left_out() -> None:
    env = {"PIP_USER": "1", "VIRTUAL_ENV": "/other", "PIP_INDEX_URL": "u", "HTTPS_PROXY": "p"}
    assert clean_environment(env) == {"PIP_INDEX_URL": "u", "HTTPS_PROXY": "p"}


def test_another_lock_or_place_makes_the_packages_anew(layout: Layout, tmp_path: Path) -> None:
    other = Layout(tmp_path / "moved")
    for place in (layout, other):
        place.root.mkdir(parents=True)
        place.lock.write_text("a==1\n")
    first = packages_step(layout, "pip").key
    assert packages_step(layout, "pip").key == packages_step(layout, "uv").key == first
    assert packages_step(other, "pip").key != first
    layout.lock.write_text("a==2\n")
    assert packages_step(layout, "pip").key != first


def test_a_lock_with_unequal_engines_is_refused_before_anything_is_made(layout: Layout) -> None:
    layout.root.mkdir(parents=True)
    layout.lock.write_text("pyspark==4.2.0\npyspark-client==4.2.1\n")
    with pytest.raises(SetupFailed, match="need one and the same version"):
        packages_step(layout, "pip").act()
    assert not layout.venv.exists()


def test_a_venv_whose_python_is_gone_is_made_anew(layout: Layout, tmp_path: Path) -> None:
    stamp = tmp_path / "stamps" / "packages.json"
    stamp.parent.mkdir()
    stamp.touch()
    assert not venv_is_broken(layout)
    layout.python.parent.mkdir(parents=True)
    layout.python.symlink_to(sys.executable)
    refuse_to_trust_a_broken_venv(layout, stamp.parent)
    assert stamp.exists()
    layout.python.unlink()
    layout.python.symlink_to("/gone/python3.11")
    refuse_to_trust_a_broken_venv(layout, stamp.parent)
    assert not stamp.exists()


def test_the_installed_packages_have_bytecode(installed: Layout) -> None:
    """With PYTHONDONTWRITEBYTECODE set, as on some machines, nobody else makes it."""
    for module in ("pyspark/sql/dataframe.py", "great_expectations/__init__.py"):
        source = installed.site_packages / module
        assert Path(cache_from_source(str(source))).exists(), source


def test_the_command_is_installed_and_the_package_is_this_folder(installed: Layout) -> None:
    assert (installed.venv / "bin" / "tidemark").exists()
    command = [installed.python, "-I", "-c", "import tidemark; print(tidemark.__file__)"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert Path(ended.stdout.strip()) == installed.root / "include" / "tidemark" / "__init__.py"
