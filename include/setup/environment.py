"""What a run needs in its environment: `.tidemark/env`, for a POSIX shell to source."""

from __future__ import annotations

import shlex

from setup.java import Java
from setup.layout import Layout
from setup.step import Step, key_of, write_whole

# What the JVM has to say as an error shows, but not what it says of the archive: Java 25 calls
# it an error that Spark's options for modules were not there when its base archive was made.
QUIET = "-Xlog:disable -Xlog:all=error:stderr -Xlog:cds*=off:stderr"

HEADER = """\
# Made by `make setup`. Source it in a POSIX shell: . ./.tidemark/env
# It puts Spark, Delta, Java and the Python of .venv into the environment of what starts next.
"""


def spark_environment(layout: Layout, java: Java, archive: str | None) -> dict[str, str]:
    """By environment only: a folder of Spark settings would be on the class path, and a JVM
    takes no class-data archive along with a folder there.
    """
    mapped = f"-XX:SharedArchiveFile={archive} {QUIET}" if archive else ""
    return {
        "JAVA_HOME": java.home,
        "SPARK_HOME": str(layout.spark_home),
        "SPARK_DIST_CLASSPATH": f"{layout.jars}/*",
        # spark-submit's command line is put together by a JVM of its own.
        "SPARK_LAUNCHER_OPTS": java.flags,
        "SPARK_SUBMIT_OPTS": f"{java.flags} {mapped}".strip(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(layout.python),
        "PYSPARK_DRIVER_PYTHON": str(layout.python),
    }


def environment_file(layout: Layout, java: Java, archive: str | None) -> str:
    """The text of the file. A user's own TIDEMARK_SETTINGS stays; the rest is set as it must be."""
    variables = spark_environment(layout, java, archive)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    first = f"{layout.venv}/bin:{java.home}/bin"
    lines.append(f'export PATH="{first}:$PATH"')
    settings = layout.root / "include" / "settings.yaml"
    lines.append(f'export TIDEMARK_SETTINGS="${{TIDEMARK_SETTINGS:-{settings}}}"')
    return HEADER + "\n".join(lines) + "\n"


def environment_step(layout: Layout, java: Java, archive: str | None) -> Step:
    text = environment_file(layout, java, archive)

    def act() -> dict[str, str]:
        write_whole(layout.env_file, text)
        return {"note": str(layout.env_file.relative_to(layout.root))}

    return Step(
        name="environment",
        doing="writing the environment file",
        key=key_of(text),
        outputs=(layout.env_file,),
        act=act,
    )
