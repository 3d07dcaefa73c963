"""Spark SQL expressions of a pipeline file, checked at load time without Spark.

`check_derived` is for expressions over one row, `check_condition` for conditions on one,
`check_measures` for aggregates of a window, `check_row` for conditions on a row of gold,
`check_where` on one of bronze. All read the text with sqlglot's Spark dialect and return every
fault with its offset. What they accept, Spark's analyzer accepts; a test compares the two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp, tokenize
from sqlglot import parse as parse_sql
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.tokenizer_core import Token, TokenType

from tidemark.pipeline.expressions import aggregates
from tidemark.pipeline.expressions.arguments import argument_faults
from tidemark.pipeline.expressions.clock_texts import clock_faults
from tidemark.pipeline.expressions.equalities import Value, equalities_of
from tidemark.pipeline.expressions.exact_sums import closing, opens
from tidemark.pipeline.expressions.functions import FROM_BRONZE, spark_functions
from tidemark.pipeline.expressions.in_duckdb import columns_of, in_duckdb
from tidemark.pipeline.expressions.kept_types import kept_type_faults
from tidemark.pipeline.expressions.kinds import UNKNOWN, Kind, kind_of_measure, kind_of_name
from tidemark.pipeline.expressions.names import (
    DIALECT,
    Fault,
    Scope,
    column_faults,
    function_faults,
    known_name,
    offset_of,
    with_escaped_quotes,
)
from tidemark.pipeline.expressions.patterns import literal_patterns, pattern_faults
from tidemark.pipeline.expressions.sizes import size_faults
from tidemark.pipeline.expressions.types import BOOLEAN, kind_of, type_faults
from tidemark.pipeline.names import folded

# Parsing takes time by tokens and stack by brackets; the Dag processor has not much of either.
LONGEST, MOST_TOKENS, DEEPEST = 20_000, 2_000, 30
_TOO_DEEP = f"is nested too deeply: at most {DEEPEST} brackets or CASEs within each other"
_LACKS_AN_ARGUMENT = "cannot be read as SQL: a call lacks an argument"
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
_BRACKETS = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING_BRACKETS = (TokenType.R_PAREN, TokenType.R_BRACKET)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_SAID = (*_TEXTS, TokenType.NUMBER, TokenType.VAR, TokenType.IDENTIFIER)
_COMPARING = (
    *(TokenType.EQ, TokenType.NEQ, TokenType.GT, TokenType.GTE, TokenType.LT, TokenType.LTE),
    *(TokenType.NULLSAFE_EQ, TokenType.IN, TokenType.BETWEEN, TokenType.LIKE),
    # Of `is distinct from`; what follows any other `is` is a word.
    TokenType.DISTINCT,
)
_PARTING = (
    *(TokenType.AND, TokenType.OR, TokenType.COMMA),
    *(TokenType.WHEN, TokenType.THEN, TokenType.ELSE),
)
# Words, and what has one of each in Spark; sqlglot reads it without the word, too.
_NEEDED_WORDS: tuple[tuple[TokenType, Callable[[exp.Expr], bool], str], ...] = (
    (
        TokenType.AND,
        lambda node: isinstance(node, exp.And | exp.Between),
        "has BETWEEN without AND; write `x between 1 and 5`",
    ),
    (
        TokenType.THEN,
        # An `if` may be what CASE compares, or stand behind ELSE.
        lambda node: isinstance(node.parent, exp.Case) and node.arg_key == "ifs",
        "has WHEN without THEN; write `case when x then 1 end`",
    ),
    (
        TokenType.IS,
        lambda node: isinstance(node, exp.Is),
        "has NULL or NOT NULL without IS; write `x is null` or `x is not null`",
    ),
)
_LOGARITHMS = ("ln", "log", "log2", "log10")
_MAY_KEEP_ALL = re.compile("|".join((*FROM_BRONZE, "distinct")), re.IGNORECASE)
_CAN_FAIL = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Abs, exp.Neg)
_DERIVE = "`derive` a boolean column, of any Spark SQL, and name that: `where: NAME`"
_NO_EXPRESSION = (exp.Query, exp.DDL, exp.DML, exp.Command, exp.Values, exp.Set, exp.Drop)
_NOT_SPARK = (exp.Placeholder, exp.Parameter, exp.SessionParameter, exp.JSONBContainsTopKey)


def check_derived(text: str, scope: Scope) -> tuple[list[Fault], exp.DataType | None]:
    """The faults of a row's expression, and its type where it can be told."""
    faults, known = _derived(text, scope)
    if faults:
        faults = _or_backticks(text, scope, lambda text, scope: _derived(text, scope)[0])
    return faults, known


def _derived(text: str, scope: Scope) -> tuple[list[Fault], exp.DataType | None]:
    root, faults = _read(text, scope)
    if root is None:
        return faults, None
    faults += _aggregates(root, "is an aggregate; a derived column is computed from one row")
    faults += _unkept(root, faults)
    known = root.type if isinstance(root.type, exp.DataType) and not faults else None
    unknown = known is None or known.is_type("unknown", "null")
    return _in_order(faults), None if unknown else known


def check_condition(text: str, scope: Scope) -> list[Fault]:
    """The faults of a condition on one row."""
    return _or_backticks(text, scope, _of_condition)


def _of_condition(text: str, scope: Scope) -> list[Fault]:
    root, faults = _read(text, scope)
    if root is None:
        return faults
    faults += _aggregates(root, "is an aggregate; a rule is told by one row")
    if not faults and kind_of(root) not in (BOOLEAN, None):
        faults.append(Fault(0, "is no condition: it should be true or false for a row"))
    return _in_order(faults)


def _aggregates(root: exp.Expr, why: str) -> list[Fault]:
    found = filter(_is_aggregate, root.walk())
    return [Fault(offset_of(aggregate), f"{_named(aggregate)} {why}") for aggregate in found]


def check_measure(text: str, scope: Scope) -> list[Fault]:
    """The faults of a window's aggregate that names no other measure."""
    return check_measures({"": text}, scope)[""]


def check_measures(measures: Mapping[str, str], scope: Scope) -> dict[str, list[Fault]]:
    """The faults of a table's measures, by their names. An empty one is wrong by itself: what names
    it is not judged, nor what names one that has a fault."""
    names = frozenset(map(folded, measures))
    above: dict[str, str] = {}
    found: dict[str, list[Fault]] = {}
    for name, text in measures.items():
        check = partial(_of_measure, above=above, names=names)
        found[name] = _or_backticks(text, scope, check) if text else []
        full = "" if found[name] else _in_full(text, _named_above(text, above))
        above[folded(name)] = _operand(full)
    return found


def in_full(measures: Mapping[str, str]) -> dict[str, str]:
    """A table's measures, which were checked, as aggregates over columns alone: each that names
    measures above it has them written out. Within an aggregate a name is a column; outside of one,
    where no column can stand, it is a measure."""
    above: dict[str, str] = {}
    full: dict[str, str] = {}
    for name, text in measures.items():
        full[name] = _in_full(text, _named_above(text, above))
        above[folded(name)] = _operand(full[name])
    return full


def _of_measure(
    text: str, scope: Scope, above: Mapping[str, str], names: frozenset[str]
) -> list[Fault]:
    if faults := list(_misnamed_faults(text, scope, above, names)):
        return _in_order(faults)
    named = _named_above(text, above)
    if not all(one.says for one in named):
        return []
    if named and len(text) + sum(len(one.says) for one in named) > LONGEST:
        message = f"is too long with the measures that it names: at most {LONGEST:,} characters"
        return [Fault(0, message)]
    root, faults = _read(_in_full(text, named), scope, above)
    # A function that is unknown may be meant as an aggregate: one fault is enough.
    if root is not None and not faults:
        faults += _aggregation_faults(root)
    if root is not None and not faults:
        faults += _told(aggregates.form_faults(root))
    faults += [] if root is None else _unkept(root, faults)
    return _in_order([replace(one, offset=_written_at(one.offset, named)) for one in faults])


@dataclass(frozen=True)
class _NamedMeasure:
    """Where an expression names a measure above it, and what stands there in full; that is empty
    where the measure cannot be told."""

    start: int
    end: int
    says: str


def _named_above(text: str, above: Mapping[str, str]) -> list[_NamedMeasure]:
    found: dict[int, _NamedMeasure] = {}
    for column in _columns_among(text, above):
        place = column.this.meta
        known = len(column.parts) == 1 and folded(column.name) in above and "start" in place
        if known and not _in_an_aggregate(column):
            says = above[folded(column.name)]
            found[place["start"]] = _NamedMeasure(place["start"], place["end"] + 1, says)
    return [found[start] for start in sorted(found)]


def _in_full(text: str, named: list[_NamedMeasure]) -> str:
    """An expression with what it names; empty where one of these is."""
    if not all(one.says for one in named):
        return ""
    for one in reversed(named):
        text = f"{text[: one.start]}{one.says}{text[one.end :]}"
    return text


def _operand(text: str) -> str:
    """A checked expression as a part of another."""
    tokens = tokenize(with_escaped_quotes(text), read=DIALECT)
    if not tokens:
        return ""
    # A comment at its end would go on over what follows.
    text = text[: tokens[-1].end + 1]
    is_call = tokens[0].token_type == TokenType.VAR and opens(tokens, 1)
    return text if is_call and closing(tokens, 1) == len(tokens) - 1 else f"({text})"


def _written_at(offset: int, named: list[_NamedMeasure]) -> int:
    """Where in an expression stands what is found in its full text."""
    for one in named:
        if offset < one.start + len(one.says):
            return min(offset, one.start)
        offset -= len(one.says) - (one.end - one.start)
    return offset


def _misnamed_faults(
    text: str, scope: Scope, above: Mapping[str, str], names: frozenset[str]
) -> Iterator[Fault]:
    """Names of measures where none can be meant."""
    for column in _columns_among(text, names):
        name = column.parts[0].name
        if known_name(name, scope) or folded(name) not in names:
            continue
        if _in_an_aggregate(column):
            message = "is a measure; an aggregate is over columns, not over others"
        elif folded(name) not in above:
            message = "is no measure above this one, and only these can be named"
        elif len(column.parts) > 1:
            message = "is a measure, which is named without its fields"
        else:
            continue
        yield Fault(offset_of(column), f"`{name}` {message}")


def _columns_among(text: str, names: Container[str]) -> list[exp.Column]:
    """The columns of an expression, where one of these names stands in it at all."""
    with suppress(TokenError):
        if any(folded(token.text) in names for token in tokenize(text, read=DIALECT)):
            root = _parse(text)[1]
            return list(root.find_all(exp.Column)) if root is not None else []
    return []


def check_row(text: str, gold: Scope, kinds: Mapping[str, Kind]) -> list[Fault]:
    """The faults of a check over one row of gold: it is a condition, and DuckDB can tell it too.

    `kinds` are the types of gold's columns, by name, as far as they can be told."""
    return _or_backticks(text, gold, partial(_of_row, kinds=kinds))


def _of_row(text: str, gold: Scope, kinds: Mapping[str, Kind]) -> list[Fault]:
    root, faults = _read(text, gold)
    if root is None:
        return faults
    faults += _aggregates(root, "is an aggregate; a check is told by one row of gold")
    if kind_of(root) not in (BOOLEAN, None):
        faults.append(Fault(0, "is no condition: it should be true for a good row"))
    if not faults and (reason := _untranslated(text, root, kinds)):
        faults.append(Fault(0, reason))
    return _in_order(faults)


def _untranslated(text: str, root: exp.Expr, kinds: Mapping[str, Kind]) -> str | None:
    """Why DuckDB cannot tell a condition as Spark does; None where it can."""
    try:
        if "\\" in text:
            raise ValueError("has a backslash, which a translation to DuckDB would lose")
        if _compares_side_by_side(text):
            raise ValueError(
                "has two comparisons side by side, which Spark binds from the left and DuckDB by "
                "what they are; put what is meant into brackets"
            )
        in_duckdb(root, columns_of(kinds))
    except ValueError as error:
        return str(error)
    return None


def _compares_side_by_side(text: str) -> bool:
    """Do two comparisons stand within the same brackets with nothing that parts them?"""
    found, between = [0], [False]
    for token in tokenize(with_escaped_quotes(text), read=DIALECT):
        kind = token.token_type
        if kind in _OPENING:
            found.append(0)
            between.append(False)
        elif kind in _CLOSING and len(found) > 1:
            found.pop()
            between.pop()
        elif kind == TokenType.AND and between[-1]:
            between[-1] = False
        elif kind in _PARTING:
            found[-1] = 0
        elif kind in _COMPARING:
            found[-1] += 1
            between[-1] = kind == TokenType.BETWEEN
            if found[-1] > 1:
                return True
    return False


def check_where(text: str, scope: Scope) -> list[Fault]:
    """The faults of a condition on a row of bronze, by which it counts for a table: DuckDB can tell
    it too, and it fails on no row."""
    return _or_backticks(text, scope, _of_where)


def _of_where(text: str, scope: Scope) -> list[Fault]:
    root, faults = _read(text, scope)
    if root is None:
        return faults
    faults += _aggregates(root, "is an aggregate; a row counts or not by what stands in it")
    if kind_of(root) not in (BOOLEAN, None):
        faults.append(Fault(0, f"is no condition: {_DERIVE}"))
    elif not faults and root.find(exp.Column) is None:
        faults.append(Fault(0, "names no column: each row would count, or none"))
    for node in root.find_all(*_CAN_FAIL):
        if not (isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)):
            said = f"`{node.sql(DIALECT)}` can fail on a row, and those of bronze are accepted"
            faults.append(Fault(offset_of(node), f"{said}; {_DERIVE}"))
    kinds = {known.name: kind_of_name(known) for known in scope.values()}
    if not faults and (reason := _untranslated(text, root, kinds)):
        faults.append(Fault(0, f"{reason}; or {_DERIVE}"))
    return _in_order(faults)


def _unkept(root: exp.Expr, known: list[Fault]) -> list[Fault]:
    """What no table can keep; the types of a faulty expression say nothing."""
    return [] if known else _told(kept_type_faults(root))


def _told(found: Iterable[tuple[exp.Expr, str]]) -> list[Fault]:
    return [Fault(offset_of(node), reason) for node, reason in found]


def measure_types(text: object, scope: Scope) -> tuple[exp.DataType | None, Kind]:
    """The type of a window's aggregate as sqlglot has it, None where it cannot be told; and as
    Spark has it, as far as that is sure."""
    root, faults = _read(text, scope) if isinstance(text, str) else (None, [])
    if root is None or faults or not isinstance(root.type, exp.DataType):
        return None, UNKNOWN
    known = None if root.type.is_type("unknown", "null") else root.type
    return known, kind_of_measure(root, scope)


def keeps_no_bound(text: str) -> bool:
    """Does a measure keep all values of a window, however many? False where it is none."""
    # Parsing takes time, and few measures do.
    root = _parse(text)[1] if _MAY_KEEP_ALL.search(text) else None
    return root is not None and aggregates.keeps_no_bound(root)


def patterns_of(text: str) -> list[str]:
    """The regular expressions that are written out in an expression."""
    root = _parse(text)[1]
    return [pattern for _, pattern in literal_patterns(root)] if root is not None else []


def columns_read(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Those of the known columns that an expression names, in their order."""
    root = _parse(text)[1]
    found = root.find_all(exp.Column) if root is not None else ()
    named = {column.parts[0].name.lower() for column in found}
    return tuple(name for name in known if name.lower() in named)


def names_read(text: str) -> tuple[tuple[str, ...], ...]:
    """The names that an expression uses, each with its parts: `a.b` has two."""
    root = _parse(text)[1]
    found = root.find_all(exp.Column) if root is not None else ()
    return tuple(
        tuple(part.name for part in column.parts if isinstance(part, exp.Identifier))
        for column in found
    )


def equalities(text: str) -> dict[str, tuple[Value, ...]] | None:
    """The values that a condition, which was checked, names by columns, as `equalities_of`; a
    comment says more too."""
    tokens, root, _ = _parse(text)
    is_plain = root is not None and not any(token.comments for token in tokens)
    return equalities_of(root) if root is not None and is_plain else None


def same_expression(one: str, other: str) -> bool:
    """Do two expressions differ in no more than their spelling (spaces, case of functions)?"""
    return one == other or _normal(one) == _normal(other)


def _normal(text: str) -> tuple[object, ...]:
    """The expression as sqlglot reads it and as it writes it, its texts, what sqlglot leaves out,
    and which of its logarithms are `log10`.

    sqlglot reads some things that it does not write (`parse_json`, the format of `to_char`), and
    leaves others out: a format that it takes for the default, and Spark fails on other texts with
    it than without, or an argument that it has no place for. It takes `log10(x)` for `log(10, x)`,
    where Spark divides. A unit may be written in capitals, and an interval's number as a text.
    """
    tokens, root, _ = _parse(text)
    if root is None:
        return (text,)
    texts = [token.text for token in tokens if token.token_type in _TEXTS]
    worded = (text.lower() for text in texts if not text.strip().isdecimal())
    written = root.sql(DIALECT, comments=False)
    left_out = _left_out(tokens, tokenize(written, read=DIALECT))
    words = (token.text.lower() for token in tokens)
    decimal = [word == "log10" for word in words if word in _LOGARITHMS]
    return root.transform(_unraw), written, sorted(worded), left_out, decimal


def _unraw(node: exp.Expr) -> exp.Expr:
    return exp.Literal.string(node.this) if isinstance(node, exp.RawString) else node


def _left_out(tokens: list[Token], written: list[Token]) -> list[str]:
    """The texts, numbers and names of an expression that are not among those written of it. Letters
    of a text that nobody takes for a unit are told apart: `HH` is no `hh`."""
    there, kept = Counter(_said(tokens)), Counter(_said(written))
    capitals = Counter(word.lower() for word, _ in (kept - there).elements())
    left = []
    for word, is_text in (there - kept).elements():
        if capitals[word.lower()]:
            capitals[word.lower()] -= 1
        else:
            left.append(word if is_text else word.lower())
    return sorted(left)


def _said(tokens: list[Token]) -> Iterator[tuple[str, bool]]:
    """The texts, numbers and names that are no function's, and whether each is a text."""
    for at, token in enumerate(tokens):
        if token.token_type in _SAID and not opens(tokens, at + 1):
            yield token.text, token.token_type in _TEXTS


def _or_backticks(
    text: str, scope: Scope, check: Callable[[str, Scope], list[Fault]]
) -> list[Fault]:
    """What `check` finds; where nothing is wrong but that columns need backticks, that alone."""
    faults = check(text, scope)
    if faults and (words := _columns_that_are_words(text, scope)):
        meant = text
        for start, word in reversed(words):
            meant = f"{meant[:start]}`{word}`{meant[start + len(word) :]}"
        if not check(meant, scope):
            said = "`{0}` is a word of SQL; write the column in backticks: ``{0}``"
            return [Fault(start, said.format(word)) for start, word in words]
    return faults


def _columns_that_are_words(text: str, scope: Scope) -> list[tuple[int, str]]:
    """Where names of columns stand without backticks that are words of SQL, too."""
    plain = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING)
    with suppress(TokenError):
        return [
            (token.start, token.text)
            for token in tokenize(text, read=DIALECT)
            if token.token_type not in plain and known_name(token.text, scope)
        ]
    return []


def _read(
    text: str, scope: Scope, measures: Iterable[str] = ()
) -> tuple[exp.Expr | None, list[Fault]]:
    """The expression with its types, and the faults that rows and windows have in common."""
    tokens, root, fault = _parse(text)
    if root is None:
        return None, [fault or Fault(0, "is empty")]
    if found := _not_an_expression(root):
        return None, [found]
    faults = [*function_faults(tokens), *_weight_faults(tokens)]
    faults += column_faults(root, scope, measures)
    if not faults:
        # sqlglot stumbles over calls with too few arguments; their types stay unknown.
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            annotate_types(root, dialect=DIALECT, overwrite_types=False)
        wrong = [*clock_faults(root)]
        # A text that is compared with a time would be told twice.
        wrong += [] if wrong else type_faults(root)
        wrong += (*argument_faults(root), *size_faults(root), *pattern_faults(root))
        faults += _told(wrong)
    return root, faults


def _parse(text: str) -> tuple[list[Token], exp.Expr | None, Fault | None]:
    if len(text) > LONGEST:
        message = f"is too long: {len(text):,} characters, at most {LONGEST:,}"
        return [], None, Fault(0, message)
    try:
        text = with_escaped_quotes(text)
        tokens = tokenize(text, read=DIALECT)
        if fault := _too_large(tokens) or _unclosed(tokens):
            return [], None, fault
        for token in tokens:
            if token.token_type == TokenType.SEMICOLON:
                return [], None, Fault(token.start, "has a `;`; give one expression")
        statements = parse_sql(text, dialect=DIALECT)
    except TokenError:
        return [], None, Fault(0, "cannot be read as SQL: a quote does not end")
    except ParseError as error:
        return [], None, _syntax_fault(text, error)
    except RecursionError:
        return [], None, Fault(0, _TOO_DEEP)
    except (LookupError, TypeError, ValueError, AttributeError):
        # sqlglot stumbles over calls with too few arguments.
        return [], None, Fault(0, _LACKS_AN_ARGUMENT)
    root = statements[0] if statements else None
    if root is not None and (fault := _left_open(tokens, root)):
        return [], None, fault
    return tokens, root, None


def _weight_faults(tokens: list[Token]) -> Iterator[Fault]:
    """Third arguments of `percentile`, which sqlglot drops: nothing would tell what they name."""
    for at, token in enumerate(tokens):
        called = token.text.lower() == "percentile" and opens(tokens, at + 1)
        if not called or token.token_type == TokenType.STRING:
            continue
        depth = commas = 0
        for inner in tokens[at + 2 : closing(tokens, at + 1)]:
            depth += (inner.token_type in _OPENING) - (inner.token_type in _CLOSING)
            commas += depth == 0 and inner.token_type == TokenType.COMMA
        if commas > 1:
            message = (
                "has a third argument, how often each value counts, and a change of it would be "
                "told by nothing; leave it out, and take a row for each time that a value counts"
            )
            yield Fault(token.start, f"percentile {message}")


def _too_large(tokens: list[Token]) -> Fault | None:
    if len(tokens) > MOST_TOKENS:
        message = f"is too long: {len(tokens):,} words and signs, at most {MOST_TOKENS:,}"
        return Fault(0, message)
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > DEEPEST:
            return Fault(token.start, _TOO_DEEP)
    return None


def _unclosed(tokens: list[Token]) -> Fault | None:
    """Brackets and commas that sqlglot reads in some calls, and Spark in none."""
    opened: list[Token] = []
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _BRACKETS:
            opened.append(token)
        elif kind in _CLOSING_BRACKETS and opened:
            opened.pop()
        is_empty = kind in (*_CLOSING_BRACKETS, TokenType.COMMA) and before == TokenType.COMMA
        if is_empty or (kind == TokenType.COMMA and before in _BRACKETS):
            return Fault(token.start, "has a comma with nothing before or after it")
        before = kind
    return Fault(opened[-1].start, "has a bracket that nothing closes") if opened else None


def _left_open(tokens: list[Token], root: exp.Expr) -> Fault | None:
    """Arguments and words that Spark needs and sqlglot does without; as names of columns there may
    be more words."""
    for node in root.walk():
        if node.error_messages():
            return Fault(offset_of(node), _LACKS_AN_ARGUMENT)
    there = Counter(token.token_type for token in tokens)
    for word, needed, message in _NEEDED_WORDS:
        if there[word] < sum(map(needed, root.walk())):
            return Fault(0, message)
    return None


def _syntax_fault(text: str, error: ParseError) -> Fault:
    first = error.errors[0] if error.errors else {}
    description = str(first.get("description")).split(" but got <Token")[0]
    reason = re.sub(r"'?for <class '[\w.]+\.(\w+)'>", r"for \1", description)
    found = str(first.get("highlight") or "")
    context = str(first.get("start_context") or "")
    offset = text.find(context + found) + len(context) if context else 0
    near = f" at `{found}`" if found else ""
    return Fault(max(offset, 0), f"cannot be read as SQL{near}: {reason.rstrip('.')}")


def _not_an_expression(root: exp.Expr) -> Fault | None:
    if isinstance(root, exp.Alias):
        return Fault(offset_of(root), "gives itself a name; the key in the file is the name")
    if isinstance(root, exp.Star | exp.Tuple) or (
        isinstance(root, exp.Column) and isinstance(root.this, exp.Star)
    ):
        return Fault(0, "is several columns; give one expression")
    if root.find(exp.Query):
        inner = not isinstance(root, exp.Query)
        what = "has a subquery" if inner else "is a query"
        return Fault(0, f"{what}; give an expression over the row's own columns")
    if isinstance(root, _NO_EXPRESSION):
        return Fault(0, "is a statement; give an expression")
    if found := root.find(*_NOT_SPARK):
        return Fault(offset_of(found), "has a parameter or an operator that Spark does not know")
    return None


def _aggregation_faults(root: exp.Expr) -> Iterator[Fault]:
    found = [node for node in root.walk() if _is_aggregate(node)]
    if not found:
        yield Fault(0, "is not an aggregate; write count(*), sum(…), max(…) or another")
        return
    for node in found:
        if _in_an_aggregate(node) and not isinstance(node.parent, exp.Filter):
            yield Fault(offset_of(node), f"{_named(node)} stands inside another aggregate")
    for window in root.find_all(exp.Window):
        message = (
            "has OVER, a window function, which gives each row a value; a measure is one of all"
        )
        yield Fault(offset_of(window), message)
    for node in root.find_all(exp.WithinGroup):
        message = "has WITHIN GROUP; write `percentile(x, 0.5)`, or `mode(x, true)`"
        yield Fault(offset_of(node), message)
    for node in root.find_all(exp.Filter):
        if not _is_aggregate(node.this):
            yield Fault(offset_of(node), "has FILTER on what is not an aggregate")
    for column in root.find_all(exp.Column):
        if not _in_an_aggregate(column):
            yield Fault(offset_of(column), f"`{column.sql(DIALECT)}` stands outside an aggregate")


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return spark_functions().get(str(node.this).lower()) == "aggregate"
    if isinstance(node, exp.Any):
        # `s like any ('a', 'b')` is no aggregate.
        return isinstance(node.this, exp.Paren) and not isinstance(node.parent, exp.Binary)
    return isinstance(node, exp.AggFunc)


def _in_an_aggregate(node: exp.Expr) -> bool:
    """Does it stand in an aggregate, or in its filter?"""
    parent = node.parent
    while parent is not None and not (isinstance(parent, exp.Filter) or _is_aggregate(parent)):
        parent = parent.parent
    return parent is not None


def _named(node: exp.Expr) -> str:
    return node.sql(DIALECT).split("(")[0].lower()


def _in_order(faults: list[Fault]) -> list[Fault]:
    return sorted(dict.fromkeys(faults), key=lambda fault: fault.offset)
