"""The class-data archive (CDS): the JVM maps what a training run loaded, instead of loading it.

A JVM refuses an archive that was made by another JVM or for another class path, in silence at
that. So its name carries a hash of both, and of the flags; a stale one is never named.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from setup.environment import spark_environment
from setup.java import Java
from setup.layout import Layout
from setup.step import Step, facts_of, key_of, run_logged

# Both put a folder of settings on Spark's class path, where a JVM takes no archive with it.
NOT_IN_TRAINING = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS")
TRAINING = Path(__file__).with_name("training.py")


def archive_step(layout: Layout, java: Java) -> Step:
    jars = [*(layout.spark_home / "jars").glob("*.jar"), *layout.jars.glob("*.jar")]
    script = TRAINING.read_text(encoding="utf-8")
    key = key_of(java.version, java.flags, script, *facts_of([*parts_of_jvm(java), *jars]))
    archive = layout.archives / f"{key[:16]}.jsa"

    def act() -> dict[str, str]:
        return make_archive(layout, java, archive)

    return Step(
        name="archive",
        doing="training the class-data archive, about a minute",
        key=key,
        outputs=(),
        act=act,
    )


def parts_of_jvm(java: Java) -> list[Path]:
    """The JVM and the base archive that ours rests on. Not `bin/java`: ours may be a wrapper."""
    lib = Path(java.home).resolve() / "lib"
    parts = (lib / "modules", lib / "server" / "libjvm.so", lib / "server" / "classes.jsa")
    return [path.resolve() for path in parts if path.exists()]


def make_archive(layout: Layout, java: Java, archive: Path) -> dict[str, str]:
    """Train, then let the JVM itself say whether it takes the archive.

    A machine where it cannot be made is no failure: runs only start some seconds later.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    if not archive.exists():
        part = archive.with_suffix(".part")
        part.unlink(missing_ok=True)
        output = train(layout, java, part)
        if output is not None or not part.exists():
            part.unlink(missing_ok=True)
            return {"note": f"none could be made, so runs start slower; see {keep_log(layout)}"}
        Path(part).replace(archive)
    if not is_taken(layout, java, archive):
        archive.unlink()
        return {"note": f"this JVM does not take its own archive; see {keep_log(layout)}"}
    remove_old_archives(archive)
    return {"made": str(archive), "note": f"{archive.stat().st_size / 1e6:.0f} MB"}


def train(layout: Layout, java: Java, archive: Path) -> str | None:
    folder = layout.state / "training"
    shutil.rmtree(folder, ignore_errors=True)
    env = training_environment(layout, java, f"-XX:ArchiveClassesAtExit={archive}")
    submit = str(layout.spark_home / "bin" / "spark-submit")
    try:
        return run_logged([submit, str(TRAINING), str(folder)], layout.log, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_taken(layout: Layout, java: Java, archive: Path) -> bool:
    """`-Xshare:on` makes a JVM that cannot map its archive end at once."""
    env = training_environment(layout, java, f"-XX:SharedArchiveFile={archive} -Xshare:on")
    submit = str(layout.spark_home / "bin" / "spark-submit")
    return run_logged([submit, "--version"], layout.log, env) is None


def training_environment(layout: Layout, java: Java, flag: str) -> dict[str, str]:
    """The environment of a run, one more flag, and nothing that differs from shell to shell."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_IN_TRAINING}
    return (
        kept
        | spark_environment(layout, java, None)
        | {"SPARK_SUBMIT_OPTS": f"{java.flags} {flag}".strip()}
    )


def keep_log(layout: Layout) -> Path:
    kept = layout.state / "archive.log"
    shutil.copyfile(layout.log, kept)
    return kept


def remove_old_archives(newest: Path) -> None:
    """Keep the one before too: who changes between two Javas need not train each time."""
    archives = sorted(newest.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in [path for path in archives if path != newest][:-1]:
        old.unlink()
