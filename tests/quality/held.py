"""A held run of one table, without Spark: what it pinned, its result file, and its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.kit.running import Place, clicks
from tests.kit.windows import Row, at, window
from tidemark.pipeline.settings.settings import Checks, Settings
from tidemark.quality.gate import Gated, validate_held
from tidemark.quality.verdicts import CheckVerdict
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.rows import Rows
from tidemark.storage.result_file import write_result

BEGAN, NOW = at(12), at(13)
TABLE = clicks()["tables"]["per_10m"] | {"measures": {"total": "sum(amount)"}}


class Held:
    """A root with one pipeline, whose runs are held and then validated or published."""

    def __init__(self, root: Path, checks: list[Any], source_checks: Sequence[Any] = ()) -> None:
        source = clicks()["source"] | {"checks": list(source_checks)}
        table = TABLE | {"checks": checks}
        self.place = Place(root, clicks(source=source, tables={"per_10m": table}))
        self.windows = self.place.windows()

    @property
    def settings(self) -> Settings:
        return self.place.settings

    def check(self, *checks: Any) -> None:
        """Change the checks of the pipeline's file."""
        table = TABLE | {"checks": list(checks)}
        self.place.content = {**self.place.content, "tables": {"per_10m": table}}

    def run(
        self,
        *rows: Row,
        run_id: str = "run",
        close: datetime | None = None,
        began: datetime = BEGAN,
        told: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """A run that changes these windows, and is held."""
        if rows:
            self.windows.change(*rows)
        result = RunResult(
            pipeline=self.place.name,
            run_id=run_id,
            outcome="succeeded",
            held=True,
            scheduled_at=began,
            started_at=began,
            ended_at=began + timedelta(seconds=6),
            rows=Rows(read=100, accepted=98, rejected={"malformed": 2}),
            tables={"per_10m": self.windows.pin(close)},
        ).model_copy(update=told or {})
        write_result(self.uri(run_id), result, {})
        return result

    def uri(self, run_id: str = "run") -> str:
        return self.place.places.result(run_id)

    def gated(self, run: RunResult, now: datetime = NOW, checks: Checks | None = None) -> Gated:
        settings = self.settings.model_copy(update={"checks": checks or Checks()})
        return validate_held(self.place.pipeline, run, self.uri(run.run_id), settings, now)

    def publish(self, run: RunResult) -> RunResult:
        return publish_and_record(self.place.pipeline, run, self.uri(run.run_id), self.settings)

    def verdicts(self) -> list[dict[str, Any]]:
        """The rows of `ops/quality`."""
        return self.place.table(self.place.places.quality).to_pylist()

    def files_of_gold(self) -> dict[str, bytes]:
        """All of gold's files and their bytes."""
        folder = Path(self.place.places.gold("per_10m"))
        return {
            str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }


def verdict_of(gated: Gated, check: str) -> CheckVerdict:
    """The verdict on the check whose text begins so."""
    (found,) = [one for one in gated.validation.verdicts if one.check.startswith(check)]
    return found


def bad_and_good() -> tuple[Row, Row, Row]:
    return (
        window(at(10), key="a", total=5, rows=2),
        window(at(10), key="b", total=-3),
        window(at(10, 10), key=None, total=None),
    )
