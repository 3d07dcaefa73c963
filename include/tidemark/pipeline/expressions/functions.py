"""Which of Spark's functions a pipeline's expressions may call, and why others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

# These keep all values of a window, as DISTINCT does: the state of a stream would have no bound. So
# their tables are computed from bronze.
FROM_BRONZE = ("mode", "collect_set", "collect_list", "array_agg")
# Their value is that of the row which an order puts last or first.
BY_ORDER = ("max_by", "min_by")
AGGREGATES = (
    *("count", "count_if", "sum", "avg", "mean", "min", "max", "approx_count_distinct"),
    *("bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or", "bit_xor"),
    *("stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp"),
    *("skewness", "kurtosis", "covar_pop", "covar_samp", "median", "percentile"),
    *("regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope"),
    *("regr_sxx", "regr_sxy", "regr_syy", "try_sum", "try_avg"),
    *(*BY_ORDER, *FROM_BRONZE),
)
# Names that Spark's grammar knows without listing them as functions, or before a bracket.
_SYNTAX = """all and any anti array as asc between by case char character dec desc distinct div else
    end escape except filter from group having ilike in interval is like not nulls numeric on
    or order over regexp rlike select some struct then timestampadd timestampdiff timestamp_ltz
    timestamp_ntz try_cast union using values varchar when where with within void"""
SYNTAX = frozenset(_SYNTAX.split())

_ORDER = "its result depends on the order of rows, which differs from run to run"
_FIRST = (
    "which row is first differs from run to run; write `min_by(x, struct(t, x))`, by its time t"
)
_LAST = "which row is last differs from run to run; write `max_by(x, struct(t, x))`, by its time t"
_ANY = "which row's value it is differs from run to run; write `min(…)`"
_JOINED = (
    "it joins texts in the order of rows, which differs from run to run; write "
    "`array_join(slice(sort_array(collect_list(…)), 1, 100), ',')`"
)
_OTHER_VALUE = "it gives another value each time, and a replay must judge a row the same"
CLOCK = "it reads the clock, and a replay must judge a row the same"
_WHERE = "it depends on where it runs, and a replay must judge a row the same"
_CODE = "it runs code that a pipeline file does not show"
_FAILS = "it would end the run; bad rows are recorded rejects instead"
_EQUAL_VALUES = "it divides by zero, and ends the run, in a window whose values are all equal"
_PACKAGE = "it needs a package that is not part of Spark"
_SKETCH = "a sketch depends on the order of rows, which differs from run to run"
_FLOAT32 = "it adds in single precision, so its result depends on the order of rows"
_TIME_OF_DAY = "it is about times without a date, a type that Spark does not support yet"
_DUPLICATES = "the table's own windows and keys decide the groups"

_REFUSED_BY_REASON: Mapping[str, str] = {
    _FIRST: "first first_value",
    _LAST: "last last_value",
    _ANY: "any_value",
    _JOINED: "listagg string_agg",
    _ORDER: "approx_percentile percentile_approx histogram_numeric approx_top_k",
    _OTHER_VALUE: """rand random randn randstr uniform uuid shuffle monotonically_increasing_id
        spark_partition_id aes_encrypt""",
    CLOCK: "current_date current_time current_timestamp curdate now localtimestamp",
    _WHERE: """input_file_name input_file_block_start input_file_block_length current_catalog
        current_database current_path current_schema current_user session_user user version""",
    _CODE: "java_method reflect try_reflect",
    _FAILS: "raise_error assert_true",
    _EQUAL_VALUES: "corr",
    _PACKAGE: "from_avro to_avro schema_of_avro from_protobuf to_protobuf",
    _SKETCH: """approx_top_k_accumulate approx_top_k_combine hll_sketch_agg hll_union_agg
        kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
        kll_sketch_agg_double kll_sketch_agg_float theta_intersection_agg theta_sketch_agg
        theta_union_agg tuple_intersection_agg_double tuple_intersection_agg_integer
        tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
        tuple_union_agg_integer""",
    _FLOAT32: "vector_avg vector_sum",
    _TIME_OF_DAY: """time make_time to_time try_to_time time_trunc time_diff time_from_micros
        time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds""",
    _DUPLICATES: "window session_window window_time grouping grouping_id measure",
    "it makes several columns of one": "json_tuple",
}
REFUSED: Mapping[str, str] = {
    name: reason for reason, names in _REFUSED_BY_REASON.items() for name in names.split()
}
# Without an argument these read the clock.
CLOCK_WITHOUT_ARGUMENT = frozenset({"unix_timestamp", "to_unix_timestamp"})


@cache
def spark_functions() -> Mapping[str, str]:
    """All built-in functions of Spark with their kind: aggregate, generator, scalar, window."""
    text = resources.files(__package__).joinpath("spark_functions.txt").read_text("utf-8")
    functions: dict[str, str] = {}
    kind = ""
    for line in text.splitlines():
        if line.endswith(":"):
            kind = line[:-1]
        elif not line.startswith("#"):
            functions |= dict.fromkeys(line.split(), kind)
    return functions


def function_refusal(name: str) -> str | None:
    """Why a function of Spark cannot stand in an expression; None when it can."""
    if reason := REFUSED.get(name):
        return f"cannot be used: {reason}"
    kind = spark_functions()[name]
    if kind == "window":
        return "is a window function, which gives each row a value; a measure is one of all"
    if kind == "generator":
        return "cannot be used: it makes several rows of one"
    if kind == "aggregate" and name not in AGGREGATES:
        return f"is not among the aggregates that can be used: {', '.join(AGGREGATES)}"
    return None
