"""spark-submit this: all rounds of one pipeline in a process that runs nothing else."""

import sys
from pathlib import Path

from tests.end_to_end.many_rounds import ROUNDS, asked, land
from tidemark.streaming.jobs.stream import run_asked


def main(root: Path, name: str) -> None:
    for number in ROUNDS:
        land(root, name, number)
        run_asked(asked(root, name, number))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
