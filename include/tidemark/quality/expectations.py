"""Expectations of Great Expectations, on pandas or Spark, each for itself.

One that raises says so in its verdict and leaves the others alone: run as a suite, it would end the
whole validation. Importing Great Expectations takes seconds, so only a pipeline that names an
expectation pays for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemark.pipeline.model import Table
from tidemark.quality.verdicts import MOST_EXAMPLES, CheckVerdict, example

# Bad rows whose keys are worth asking for.
_FEW = 1_000
ToFrame = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class RowsOfTable:
    """The rows that publish would write into a table whose checks name expectations."""

    name: str
    table: Table
    keys: tuple[str, ...]
    rows: pa.Table


@dataclass(frozen=True)
class TableExpectations:
    """The verdicts on one table, and the results of Great Expectations that its page is made of."""

    name: str
    verdicts: tuple[CheckVerdict, ...]
    results: tuple[Any, ...]


def judge_expectations(
    asked: Sequence[RowsOfTable], to_spark: ToFrame | None = None
) -> tuple[TableExpectations, ...]:
    """Judge each table's expectations: in Spark where `to_spark` makes its DataFrames, else on
    pandas."""
    # It would report to its makers what was run.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]  # as its docs do
    sources = context.data_sources
    source: Any = sources.add_spark("spark") if to_spark else sources.add_pandas("pandas")
    return tuple(_judge(source, one, to_spark or pa.Table.to_pandas) for one in asked)


def _judge(source: Any, asked: RowsOfTable, to_frame: ToFrame) -> TableExpectations:
    asset = source.add_dataframe_asset(asked.name)
    batch = asset.add_batch_definition_whole_dataframe("run").get_batch(
        {"dataframe": to_frame(asked.rows)}
    )
    judged = list(_each(batch, asked))
    return TableExpectations(
        asked.name,
        tuple(verdict for verdict, _ in judged),
        tuple(result for _, result in judged if result is not None),
    )


def _each(batch: Any, asked: RowsOfTable) -> Iterator[tuple[CheckVerdict, Any]]:
    import great_expectations.expectations as gxe

    for check in asked.table.checks:
        if isinstance(check.asked, str):
            continue
        ((name, arguments),) = check.asked.items()
        details: dict[str, Any] = {
            "table": asked.name,
            "check": expectation_text(name, arguments),
            "severity": check.severity,
        }
        try:
            result = _result(batch, getattr(gxe, name)(**arguments), asked.keys)
        except Exception as error:  # noqa: BLE001  whatever it is, nobody can tell then
            reason = f"nobody can tell: {type(error).__name__}: {error}"
            yield (
                CheckVerdict(passed=False, observed=reason, rows=asked.rows.num_rows, **details),
                None,
            )
            continue
        # Its values are numpy's and pandas' own, which neither JSON nor its own pages take.
        result.success, result.result = bool(result.success), _plain(result.result)
        yield _verdict(result, asked.rows.num_rows, details), result


def _result(batch: Any, expectation: Any, keys: Sequence[str]) -> Any:
    """The result, with the keys of bad rows where these are few: Great Expectations collects the
    keys of all of them, which took 20 s of processor time for 500,000."""
    form: dict[str, Any] = {"result_format": "BASIC", "partial_unexpected_count": MOST_EXAMPLES}
    result = batch.validate(expectation, result_format=form)
    if not 0 < (result.result.get("unexpected_count") or 0) <= _FEW:
        return result
    form |= {"result_format": "SUMMARY", "unexpected_index_column_names": list(keys)}
    return batch.validate(expectation, result_format=form)


def _plain(values: Mapping[str, Any]) -> Any:
    """The same in the types of JSON."""
    return json.loads(json.dumps(values, default=_plain_value))


def _plain_value(value: Any) -> Any:
    # A number of numpy; a timestamp of pandas and a decimal have no item.
    return value.item() if hasattr(value, "item") else str(value)


def _verdict(result: Any, rows: int, details: Mapping[str, Any]) -> CheckVerdict:
    found = result.result
    bad = found.get("partial_unexpected_index_list") or [
        {"value": value} for value in found.get("partial_unexpected_list") or ()
    ]
    return CheckVerdict(
        passed=result.success,
        observed=_observed(result),
        rows=found.get("element_count", rows),
        unexpected=found.get("unexpected_count"),
        examples=tuple(example(row) for row in bad[:MOST_EXAMPLES]),
        **details,
    )


def _observed(result: Any) -> str:
    found = result.result
    if raised := _raised(result.exception_info):
        return f"nobody can tell: {raised}"
    if found.get("observed_value") is not None:
        return f"{found['observed_value']}"
    if found.get("unexpected_percent") is not None:
        number, of = found["unexpected_count"], found["element_count"]
        return f"{found['unexpected_percent']:.4g} % unexpected ({number:,} of {of:,} rows)"
    return "no value"


def _raised(info: Mapping[str, Any]) -> str | None:
    """What an expectation raised: its own, or of the first metric that it rests on."""
    one = info if "raised_exception" in info else next(iter(info.values()), {})
    return str(one["exception_message"]) if one.get("raised_exception") else None


def expectation_text(name: str, arguments: Mapping[str, Any]) -> str:
    """An expectation on one line, as Python writes it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
