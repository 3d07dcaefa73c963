"""What the text that a reject keeps is to the judge, who would read it once more.

Of JSON, and of rows that have types, it is the line that was judged. Of CSV it is the record, which
a file's header names; where files have none, the pipeline's columns do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemark.pipeline.kafka_columns import TYPES
from tidemark.pipeline.model import FilesSource, KafkaSource, Source
from tidemark.pipeline.source_files import plain_name
from tidemark.sources.formats.formats import CSV, csv_form, format_of

if TYPE_CHECKING:
    from tidemark.sources.formats.csv_form import CsvForm


@dataclass(frozen=True)
class RawText:
    """What the texts of rejects of one form are. `why_not_whole`: they are not all that is judged;
    None: they are. `form`: of CSV."""

    why_not_whole: str | None = None
    form: CsvForm | None = None

    def line(self, text: bytes) -> tuple[bytes, str | None]:
        """The line that is judged, and why the text makes none."""
        if self.form is None:
            return text, None
        # It takes a tenth of a second to load, which a Dag file has not.
        from tidemark.sources.formats.csv import line_of_record

        return line_of_record(text, self.form)


def raw_text(source: Source, file: str | None) -> RawText:
    """That of a source's records; `file` is the one that they are of."""
    if isinstance(source, KafkaSource):
        own = {column.path(name)[0] for name, column in source.columns.items()} & TYPES.keys()
        named = ", ".join(sorted(own))
        why = f"{named} is the message's own, and rejects keep its value alone"
        return RawText(why if own else None)
    if not isinstance(source, FilesSource) or format_of(source.format, file or "") != CSV:
        return RawText()
    form = csv_form(source, file or "")
    why = "the header of its file names its fields, and rejects keep the record alone"
    return RawText(why if form.header else None, form)


def ending_of(file: str | None) -> str:
    """By which the forms of a source's files are told: those of one ending have one form."""
    return plain_name(file or "").rpartition(".")[2].lower()
