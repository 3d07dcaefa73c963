"""Rejects judged anew, in Arrow: by the one judge, line by line, in a task of Spark's.

What only Spark can tell of those that are accepted here comes after (`streaming/recompute/
replaying.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.erased import KeyedDigests
from tidemark.judge.judge import Judge
from tidemark.judge.records import RecordReader
from tidemark.judge.rules import Rules
from tidemark.pipeline.model import Source
from tidemark.pipeline.reasons import MALFORMED, TOO_LARGE
from tidemark.recompute.replay.result import NOT_JUDGED, OF_ANOTHER
from tidemark.sources.raw_texts import RawText, ending_of, raw_text
from tidemark.storage.delta.append import conformed

# What a reject has beside where it comes from, while it is judged: its id, its file of the table,
# the line that mends it, the record, whether that is text as its source has it, and why it cannot
# be judged.
REJECT_ID, REJECT_FILE, LINE_NUMBER = "_reject_id", "_reject_file", "_line"
RECORD, IS_TEXT, UNJUDGED = "_value", "_is_text", "_unjudged"
_Verdict = tuple[str, str | None]


@dataclass(frozen=True)
class Rejudging:
    """By what rejects are judged: plain data, which can be sent to a task. `time_ms` is the act's
    own; `schema` that of what comes out; `erased` what erasures reject."""

    source: Source
    rules: Rules
    time_ms: int
    most_bytes: int
    schema: pa.Schema
    erased: KeyedDigests | None = None

    @cached_property
    def _judges(self) -> dict[bool, Judge]:
        """By whether the record is of CSV, where all that is a number stands as one."""
        csv = self.rules.without_numbers_in_text()
        return {
            False: Judge(self.rules, self.time_ms, by_line=True, erased=self.erased),
            True: Judge(csv, self.time_ms, by_line=True, erased=self.erased),
        }

    def judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rejects, in the columns above and those that say where a row comes from: accepted ones
        with the source's columns, the others with `_reason` and `_detail`."""
        forms: dict[str, RawText] = {}
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            for part in self._of(rows, forms):
                yield from conformed(part, self.schema).to_batches()

    def _of(self, rows: pa.Table, forms: dict[str, RawText]) -> Iterator[pa.Table]:
        files = rows["_file"].to_pylist() if "_file" in rows.column_names else [None] * len(rows)
        verdicts: dict[int, _Verdict] = {}
        lines: dict[bool, dict[int, bytes]] = {False: {}, True: {}}
        columns = (rows[name].to_pylist() for name in (RECORD, IS_TEXT, UNJUDGED))
        for place, (file, record, is_text, why) in enumerate(zip(files, *columns, strict=True)):
            form = forms.setdefault(ending_of(file), raw_text(self.source, file))
            found = (NOT_JUDGED, why) if why else self._line(record, is_text, form)
            if isinstance(found, bytes):
                lines[form.form is not None][place] = found
            else:
                verdicts[place] = found
        for is_csv, own in lines.items():
            if own:
                yield from self._judged(rows, own, self._judges[is_csv], verdicts)
        yield _rejected(rows, verdicts)

    def _line(self, record: bytes, is_text: bool, form: RawText) -> bytes | _Verdict:
        if len(record) > self.most_bytes:
            what = f"The record has {len(record):,} bytes, at most {self.most_bytes:,} are taken"
            return TOO_LARGE, what
        if not is_text:
            return record
        if form.why_not_whole:
            return NOT_JUDGED, f"{form.why_not_whole}; give `raw` as an object with all fields"
        line, why = form.line(record)
        return (MALFORMED, why) if why else line

    def _judged(
        self, rows: pa.Table, lines: dict[int, bytes], judge: Judge, verdicts: dict[int, _Verdict]
    ) -> Iterator[pa.Table]:
        """The accepted rows of these lines; the others get their verdicts."""
        places: Any = np.array(list(lines), np.int64)
        records = pa.array(lines.values(), pa.binary())
        if self.rules.when is not None:
            # A line of an element has its record's other fields too.
            (chosen,) = RecordReader(replace(self.rules, explode=None)).read(records)
            others = (OF_ANOTHER, "`when` of the pipeline leaves the record to others")
            own = {*places[chosen.records].tolist()}
            verdicts |= dict.fromkeys((at for at in lines if at not in own), others)
            for place, one in chosen.rejected.items():
                verdicts[int(places[place])] = (one.reason, one.detail)
            places, records = places[chosen.records], chosen.lines
        judged = judge.judge(records)
        rejected = places[judged.rejected_at.to_numpy()].tolist()
        said = judged.rejected.select(["reason", "detail"]).to_pylist()
        verdicts |= {
            at: (one["reason"], one["detail"]) for at, one in zip(rejected, said, strict=True)
        }
        accepted = rows.take(pa.array(places[judged.accepted_at.to_numpy()]))
        for name in judged.accepted.column_names:
            accepted = accepted.append_column(name, judged.accepted[name])
        yield accepted


def _rejected(rows: pa.Table, verdicts: dict[int, _Verdict]) -> pa.Table:
    # The bytes of such a line need not be text.
    left = rows.drop_columns([RECORD]).take(pa.array(verdicts, pa.int64()))
    said = [list(one) for one in zip(*verdicts.values(), strict=True)] or [[], []]
    for name, column in zip(("_reason", "_detail"), said, strict=True):
        left = left.append_column(name, pa.array(column, pa.string()))
    return left
