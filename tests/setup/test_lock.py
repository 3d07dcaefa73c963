from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from setup.errors import SetupFailed
from setup.jars import JARS
from setup.layout import Layout
from setup.lock import pinned_versions, refuse_unequal_engines, unequal_engines


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# A pin with its marker, or one of its hashes.
LINE = re.compile(r"[\w.\[\]-]+==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
LOCKS = ("requirements.txt", "requirements-runtime.txt", "docs/site/requirements.txt")


def hashes_of(lock: str) -> dict[str, frozenset[str]]:
    """Of each pin, with its marker, the sha256 of the files that may be installed."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^ *#.*\n", "", lock, flags=re.MULTILINE)).splitlines()
    pins = [line.partition("--hash=") for line in lines if line]
    return {pin.strip(): frozenset(re.findall(r"[0-9a-f]{64}", of)) for pin, _, of in pins}


@pytest.fixture
def lock(repository: Path) -> str:
    return (repository / "requirements.txt").read_text(encoding="utf-8")


def test_the_lock_has_one_version_for_pyspark_and_pyspark_client(lock: str) -> None:
    assert unequal_engines(lock) is None


def test_a_lock_in_which_pyspark_and_pyspark_client_differ_is_refused(lock: str) -> None:
    differing = re.sub(r"^pyspark-client==\S+", "pyspark-client==4.2.1", lock, flags=re.MULTILINE)
    assert differing != lock
    with pytest.raises(SetupFailed, match=r"pyspark 4\.2\.0, pyspark-client 4\.2\.1"):
        refuse_unequal_engines(differing)


@pytest.mark.parametrize(
    "text",
    [
        "pyspark==4.2.0\n",
        "pyspark-client==4.2.0\n",
        "",
        "pyspark==4.2.0 ; python_version < '3.12'\npyspark==4.3.0 ; python_version >= '3.12'\n"
        "pyspark-client==4.2.0\n",
        "# pyspark==4.2.0\npyspark-client==4.2.0\n",
        "pyspark==4.2.0\nPySpark_Client==4.2.0.post1\n",
    ],
)
def test_a_lock_with_a_missing_double_or_differing_engine_is_refused(text: str) -> None:
    assert unequal_engines(text)


def test_the_installed_pyspark_and_pyspark_client_have_the_version_of_the_lock(lock: str) -> None:
    (pinned,) = pinned_versions(lock)["pyspark"]
    assert metadata.version("pyspark") == pinned
    assert metadata.version("pyspark-client") == pinned


def test_what_is_installed_is_what_the_lock_says(lock: str) -> None:
    pins = pinned_versions(lock)
    installed = {canonical(d.metadata["Name"]): d.version for d in metadata.distributions()}
    differing = {
        name: (version, pins[name])
        for name, version in installed.items()
        if name in pins and version not in pins[name]
    }
    assert differing == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_complete(repository: Path, name: str) -> None:
    """Set-up installs without looking at dependencies, so none may be missing from a lock."""
    pins = pinned_versions((repository / name).read_text(encoding="utf-8"))
    missing = []
    for name in pins:
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another system or another version of Python
        for need in map(Requirement, needs):
            applies = need.marker is None or need.marker.evaluate({"extra": ""})
            versions = pins.get(canonical(need.name), set())
            if applies and not any(need.specifier.contains(v, prereleases=True) for v in versions):
                missing.append(f"{name} needs {need}, the lock has {sorted(versions)}")
    assert missing == []


def test_the_lock_lies_within_the_ranges_of_the_wheel(lock: str, repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    pins = pinned_versions(lock)
    for text in [*project["dependencies"], *(need for extra in extras for need in extra)]:
        need = Requirement(text)
        assert any(need.specifier.contains(version) for version in pins[canonical(need.name)]), text


def test_the_wheel_asks_for_each_package_that_the_judge_imports(repository: Path) -> None:
    """Executors may have no more than the wheel brings, and Spark's own Python."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    asked = {canonical(Requirement(text).name) for text in project["dependencies"]}
    imported = set()
    for file in (repository / "include" / "tidemark" / "judge").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    others = imported - sys.stdlib_module_names - {"tidemark"}
    assert "numpy" in others
    assert others <= asked


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_registry_and_hashes_of_each_package(repository: Path, name: str) -> None:
    """One package without a hash, and pip takes none at all."""
    text = (repository / name).read_text(encoding="utf-8")
    assert "://" not in text
    lines = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert hashes_of(text)
    assert [pin for pin, hashes in hashes_of(text).items() if not hashes] == []


def test_what_runs_is_the_full_lock_without_what_only_tests_and_checks_need(
    repository: Path, lock: str
) -> None:
    runs = (repository / "requirements-runtime.txt").read_text(encoding="utf-8")
    assert hashes_of(runs).items() < hashes_of(lock).items()
    known = pinned_versions(runs)
    assert not known.keys() & {"pytest", "hypothesis", "moto", "mypy", "ruff", "check-jsonschema"}
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(need for extra in extras for need in extra)]
    assert {canonical(Requirement(text).name) for text in asked} <= known.keys()


def test_the_delta_jars_are_of_the_versions_in_the_lock(lock: str) -> None:
    pins = pinned_versions(lock)
    (delta,) = pins["delta-spark"]
    (spark,) = pins["pyspark"]
    assert {jar.revision for jar in JARS if jar.organisation == "io.delta"} == {delta}
    assert JARS[0].name.startswith(f"delta-spark_{spark.rpartition('.')[0]}_")


def test_no_jar_is_fetched_that_pyspark_has_in_any_version(installed: Layout) -> None:
    own = {re.sub(r"-\d.*$", "", path.stem) for path in (installed.spark_home / "jars").glob("*")}
    assert "hadoop-client-api" in own
    assert not own & {jar.name for jar in JARS}


def test_s3a_is_that_of_pysparks_hadoop(installed: Layout) -> None:
    (client,) = (installed.spark_home / "jars").glob("hadoop-client-api-*.jar")
    (s3a,) = (jar for jar in JARS if jar.name == "hadoop-aws")
    assert client.name == f"hadoop-client-api-{s3a.revision}.jar"


def test_this_python_is_one_that_the_wheel_allows(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    allowed = Requirement(f"tidemark{project['requires-python']}").specifier
    assert allowed.contains(".".join(map(str, sys.version_info[:3])))
