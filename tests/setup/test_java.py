from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from setup.java import (
    Java,
    choose_java,
    java_candidates,
    judge_java,
    parse_properties,
    wheel_runtime,
    write_wrapper,
)
from setup.layout import Layout


def make_command(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def make_java(home: Path, version: str, modules: str = "jdk.incubator.vector@1") -> Path:
    """A command that answers as a Java of this version does (no such one is on the machine)."""
    major = re.split(r"[.+]", version)[0]
    script = f"""
    echo 'Property settings:
    java.home = {home}
    java.runtime.version = {version}
    java.specification.version = {major}
' >&2
    echo 'java.base@{version}'; echo '{modules}'"""
    return make_command(home / "bin" / "java", script)


def test_properties_are_read_from_what_java_shows() -> None:
    shown = """Property settings:
    java.home = /usr/lib/jvm/java 17
    java.runtime.version = 17.0.15+6-Debian-1deb12u1
    java.specification.version = 17
    line.separator = \\n
"""
    about = parse_properties(shown)
    assert about["java.home"] == "/usr/lib/jvm/java 17"
    assert about["java.runtime.version"] == "17.0.15+6-Debian-1deb12u1"
    assert about["java.specification.version"] == "17"


@pytest.mark.parametrize("version", ["17.0.15", "21.0.4+7", "25+36"])
def test_the_java_versions_that_spark_runs_on_are_taken(tmp_path: Path, version: str) -> None:
    judged = judge_java(make_java(tmp_path / "jdk", version))
    assert isinstance(judged, Java)
    assert judged.home == str(tmp_path / "jdk")


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_402", "18.0.2", "24.0.1"])
def test_other_java_versions_are_refused_with_the_versions_that_do(
    tmp_path: Path, version: str
) -> None:
    judged = judge_java(make_java(tmp_path / "jdk", version))
    assert judged == f"is version {version} and Spark 4.2 runs on 17, 21, 25"


def test_a_java_without_the_module_that_spark_asks_for_is_refused(tmp_path: Path) -> None:
    judged = judge_java(make_java(tmp_path / "jdk", "21.0.4", modules="java.sql@21"))
    assert isinstance(judged, str)
    assert "without the module jdk.incubator.vector" in judged


def test_a_java_that_does_not_run_is_refused(tmp_path: Path) -> None:
    assert judge_java(make_command(tmp_path / "java", "exit 127")) == "does not run"
    assert judge_java(tmp_path / "nothing") == "does not run"


def test_a_java_that_does_not_take_the_flags_is_used_without_them(tmp_path: Path) -> None:
    java = make_java(tmp_path / "jdk", "17.0.1")
    odd = java.read_text().replace("#!/bin/sh", "#!/bin/sh\ncase $1 in -XX*) exit 1;; esac")
    make_command(java, odd)
    judged = judge_java(java)
    assert isinstance(judged, Java)
    assert judged.flags == ""


def test_the_folder_of_an_earlier_set_up_is_no_candidate(layout: Layout) -> None:
    own = make_java(layout.java, "25.0.2").parent
    env = {"JAVA_HOME": str(layout.java), "PATH": str(own)}
    assert java_candidates(layout, env) == {}


def test_java_home_comes_before_the_path(layout: Layout, tmp_path: Path) -> None:
    home, other = make_java(tmp_path / "home", "17.0.1"), make_java(tmp_path / "other", "21.0.1")
    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}
    candidates = java_candidates(layout, env)
    assert candidates == {"JAVA_HOME": home, "PATH": other}
    assert choose_java(layout, candidates)[0].version == "17.0.1"


def test_an_unsuitable_java_home_falls_back_to_the_path(layout: Layout, tmp_path: Path) -> None:
    old, good = make_java(tmp_path / "old", "11.0.1"), make_java(tmp_path / "good", "21.0.1")
    java, note = choose_java(layout, {"JAVA_HOME": old, "PATH": good})
    assert java.home == str(tmp_path / "good")
    assert note == "Java 21.0.1 from PATH"


def test_the_wrapper_drops_the_module_and_passes_all_else_as_it_is(tmp_path: Path) -> None:
    runtime = tmp_path / "a runtime"
    make_command(runtime / "bin" / "java", 'for a do printf "<%s>" "$a"; done')
    make_command(runtime / "bin" / "keytool", "echo keytool")
    (runtime / "release").write_text("JAVA_VERSION")
    write_wrapper(tmp_path / "home", runtime)
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "*", "--add-modules=x", "'$1"]
    ended = subprocess.run(
        [tmp_path / "home" / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "<-Da=b c><><*><--add-modules=x><'$1>"
    assert (tmp_path / "home" / "release").read_text() == "JAVA_VERSION"
    assert (tmp_path / "home" / "bin" / "keytool").exists()


def test_the_runtime_of_the_wheel_starts_behind_the_wrapper_and_not_without(
    installed: Layout, tmp_path: Path
) -> None:
    runtime = wheel_runtime(installed)
    write_wrapper(tmp_path / "home", runtime)
    asked = ["--add-modules=jdk.incubator.vector", "-version"]
    bare = subprocess.run([runtime / "bin" / "java", *asked], capture_output=True, check=False)
    wrapped = subprocess.run(
        [tmp_path / "home" / "bin" / "java", *asked], capture_output=True, check=False
    )
    assert bare.returncode != 0
    assert wrapped.returncode == 0
