"""Which rows were rejected in the time of a row of gold, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.judge.exact import ExactJudge, RejectedLine
from tidemark.judge.json_text import Number
from tidemark.judge.kinds import arrow_type
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import ColumnRule, rules_of
from tidemark.judge.values import WRONG
from tidemark.operators.operator import listed
from tidemark.pipeline.model import Pipeline
from tidemark.recompute.differences import plain
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.story.in_bronze import Input, Span
from tidemark.story.story import LONGEST_TEXT, SAMPLE, Rejected, RejectedRow, cut

# So many are looked at for the keys, and of each so much text.
_LOOKED_AT = 1_000
_LONGEST_RAW = 64 * 1024


def rejected_in(
    of: Input, rejects: DeltaTable, pipeline: Pipeline, key: Mapping[str, Any], stretch: Span,
    batches: Sequence[int],
) -> Rejected:  # fmt: skip
    """Those whose event time lies in the stretch, those of the key first. `batches` of ingest
    brought the row's rows."""
    within = stretch.holds("event_time")
    order = listed(["event_time", *of.origin(rejects)])
    with duckdb_in_utc() as connection:
        timed = dataset_of(rejects, within.replace("TIMESTAMPTZ ", ""))
        connection.register("timed", timed)
        reasons = connection.execute(
            f"SELECT reason, count(*) FROM timed WHERE {within} GROUP BY 1 ORDER BY 1"
        ).fetchall()
        rows = connection.sql(
            f"""
            SELECT * REPLACE (CASE WHEN strlen(raw) <= {_LONGEST_RAW} THEN raw
                ELSE left(raw, {LONGEST_TEXT}) || '…' END AS raw)
            FROM timed WHERE {within} ORDER BY {order} LIMIT {_LOOKED_AT}
            """
        ).to_arrow_table().to_pylist()  # fmt: skip
        without_time = 0
        if batches:
            theirs = f"_batch IN ({', '.join(map(str, batches))})"
            connection.register("brought", dataset_of(rejects, theirs))
            ((without_time,),) = connection.execute(
                f"SELECT count(*) FROM brought WHERE event_time IS NULL AND {theirs}"
            ).fetchall()
    found = [*zip(_have((row["raw"] for row in rows), pipeline, key), rows, strict=True)]
    # Those of which nobody can tell before those of other keys, each in their order.
    found.sort(key=lambda one: {True: 0, None: 1, False: 2}[one[0]])
    found = found[:SAMPLE]
    of_key = [one for one, _ in found]
    rows = [row for _, row in found]
    ingested = of.ingested(rejects, (row["_batch"] for row in rows))
    sample = tuple(
        RejectedRow(**vars(one), reason=row["reason"], detail=cut(row["detail"] or ""),
                    raw=cut(row["raw"]), of_key=has)
        for one, row, has in zip(
            of.source_rows(rejects, rows, "event_time", ingested), rows, of_key, strict=True
        )
    )  # fmt: skip
    return Rejected(dict(reasons), without_time, sample)


def _have(
    raws: Iterable[str | None], pipeline: Pipeline, key: Mapping[str, Any]
) -> Iterator[bool | None]:
    """Have the texts of rejected lines the key? None where one of it is no column of the source, or
    nobody can read the line."""
    rules = rules_of(pipeline)
    judge, columns = ExactJudge(rules, TimeLimits(0, 0)), {one.name: one for one in rules.columns}
    can_tell = key.keys() <= columns.keys()

    def is_same(column: ColumnRule, part: Any, value: Any) -> bool:
        found = None if part is None else judge.readers[column.name](part)
        if found is not WRONG:
            return bool(pa.scalar(found, arrow_type(column.kind)).as_py() == value)
        # Of another type than its column's: that may be why the line was rejected.
        return (part.decode() if isinstance(part, Number) else str(part)) == str(plain(value))

    for raw in raws:
        fields = judge.read(raw.encode()) if raw is not None and can_tell else None
        if fields is None or isinstance(fields, RejectedLine):
            yield None
        else:
            named = ((columns[name], value) for name, value in key.items())
            yield all(is_same(one, fields.get(one.key), value) for one, value in named)
