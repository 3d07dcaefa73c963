"""How a CSV file is written: plain data, which can be sent to a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CsvValue:
    """What is no text in a column of numbers (`kind`), or of booleans: there a text is without the
    blanks around it where `trim` says so, and null where it is one of `nulls`, also in quotes."""

    kind: str
    trim: bool = False
    nulls: tuple[str, ...] = ()


NUMBER, BOOLEAN = "number", "boolean"


@dataclass(frozen=True)
class CsvForm:
    """How a file is written: as `format: {csv: …}` of a pipeline says it, and by field what is no
    text (`values`). `names`: the columns of files without a header."""

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    nulls: tuple[str, ...] = ("",)
    decimal: str = "."
    comment: str = ""
    values: tuple[tuple[str, CsvValue], ...] = ()
    names: tuple[str, ...] = ()
