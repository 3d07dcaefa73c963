"""How a CSV file is written: plain data, which can be sent to a task."""

from __future__ import annotations

from dataclasses import dataclass

# What the texts of a column are.
NUMBER, BOOLEAN = "number", "boolean"


@dataclass(frozen=True)
class CsvForm:
    """How a file is written: as `format: {csv: …}` of a pipeline says it, and by `kinds` what a
    column's text is: `number`, `boolean`, else text. `names`: the columns of files without a
    header."""

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    nulls: tuple[str, ...] = ("",)
    decimal: str = "."
    comment: str = ""
    kinds: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
