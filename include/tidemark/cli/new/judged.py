"""What a run makes of a sample, by the function that judges a run's batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidemark.cli.new.sample import Sample
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SampleVerdict:
    """How many of what was looked at the judge accepts, and how many it rejects: by reason, with
    the detail of the first. `repeated` of the accepted rows have the id of an earlier one, which
    the judge does not ask for: `unique` does, of a run's rows and all before them."""

    accepted: int
    rejected: Mapping[str, tuple[int, str]]
    repeated: int

    @property
    def label(self) -> str:
        """The end of a sentence that begins with `A run`, for people."""
        rejected = sum(number for number, _ in self.rejected.values())
        if not rejected:
            return "accepts all of them"
        reasons = ", ".join(f"{number:,} {reason}" for reason, (number, _) in self.rejected.items())
        return f"accepts {self.accepted:,} of them and rejects {rejected:,} ({reasons})"


def judge_sample(
    pipeline: Pipeline, sample: Sample, settings: Settings, now: datetime
) -> SampleVerdict:
    """The verdict of a batch of the pipeline whose time is `now`, and which has these rows."""
    from tidemark.judge.rules import rules_of
    from tidemark.sources.kinds import row_origin
    from tidemark.sources.source import Slice
    from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

    class SampleSlice(Slice):
        label, estimated_bytes = "the sample", 0
        numbers_in_text = sample.numbers_in_text

        def lines(self, most_bytes: int) -> Iterator[pa.Table]:
            yield from sample.as_lines(pipeline)

    rules = BatchRules(
        rules_of(pipeline), row_origin(pipeline), 0, epoch_ms(now),
        settings.max_line_bytes, keeps_lines=False, by_line=False,
    )  # fmt: skip
    judged = judge_slices(rules, [SampleSlice()], sys.maxsize)
    assert judged is not None
    details: dict[str, str] = {}
    for rows in judged.rejected:
        for row in rows.select(["reason", "detail"]).to_pylist():
            details.setdefault(row["reason"], row["detail"])
    return SampleVerdict(
        sum(map(len, judged.accepted)),
        {reason: (number, details[reason]) for reason, number in judged.by_reason.most_common()},
        _repeated(pipeline, judged.accepted),
    )


def _repeated(pipeline: Pipeline, accepted: Sequence[pa.Table]) -> int:
    unique = pipeline.source.unique
    if unique is None:
        return 0
    ids = [one for rows in accepted for one in rows[unique.by].to_pylist() if one is not None]
    # A list or a struct has no hash.
    return len(ids) - len(set(map(repr, ids)))
