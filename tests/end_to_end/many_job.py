"""spark-submit this: all rounds of one pipeline in a process that runs nothing else; or, where no
pipeline is named, of all of them in one, each of whose runs leaves something in its session."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.end_to_end.many_rounds import CONTENTS, ROUNDS, SET, asked, land
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.state import PROVIDER
from tidemark.streaming.jobs.many import SharedEngine, run_all
from tidemark.streaming.jobs.stream import run_asked

# The engine's settings that pipelines change here.
CHANGED = ("spark.sql.shuffle.partitions", PROVIDER, "spark.sql.adaptive.enabled")


class Watched(SharedEngine):
    """Gives no session in which anything is that another run left."""

    def session_of(self, pipeline: Pipeline, settings: Settings) -> SparkSession:
        session = super().session_of(pipeline, settings)
        assert session.catalog.listTables() == []
        assert not session.catalog.functionExists("left_behind")
        assert "spark.sql.left" not in session.conf.getAll
        assert self.first is not None
        usual = [self.first.conf.get(name, None) for name in CHANGED]
        found = [session.conf.get(name, None) for name in CHANGED]
        assert found == list(SET.get(pipeline.name, usual))
        assert SparkSession.getActiveSession() is session
        session.range(1).createOrReplaceTempView("left_behind")
        session.udf.register("left_behind", lambda: 1, "long")
        session.conf.set("spark.sql.left", "behind")
        return session


def alone(root: Path, name: str) -> None:
    for number in ROUNDS:
        land(root, name, number)
        run_asked(asked(root, name, number))


def together(root: Path) -> None:
    codes, engine = [], Watched("tests")
    for number in ROUNDS:
        for name in CONTENTS:
            land(root, name, number)
        codes.append(run_all([asked(root, name, number) for name in CONTENTS], engine))
    (root / "codes.json").write_text(json.dumps(codes))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        alone(Path(sys.argv[1]), sys.argv[2])
    else:
        together(Path(sys.argv[1]))
