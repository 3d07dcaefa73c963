"""Kafka's programs as Java processes, none of which outlives the process that started it."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
# A process is bound to the thread that started it, and a test may start one in a thread that ends.
# This one lives as long as the interpreter.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="broker")
# Quick to start and small, rather than fast.
_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xss512k",
          "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
          f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}")  # fmt: skip


@dataclass(frozen=True)
class Java:
    """A Java runtime, and the folder with the jars of a broker."""

    home: Path
    jars: Path

    def start(self, memory: str, log: Path, *program: str) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own; what it says is added to `log`."""
        command = [str(self.home / "bin" / "java"), f"-Xmx{memory}", *_FLAGS]
        command += ["-cp", f"{self.jars}/*", *program]
        bound = [sys.executable, "-I", "-S", str(_HERE / "bound.py"), str(os.getpid())]
        with log.open("ab") as out:
            return _STARTER.submit(
                subprocess.Popen,
                [*bound, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ).result()
