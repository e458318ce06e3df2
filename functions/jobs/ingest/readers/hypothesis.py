"""Reads the annotations that Hypothesis exports as JSON or CSV, or that its API returns.

`services/annotations-exporter` in github.com/hypothesis/client defines both files, and
https://h.readthedocs.io/en/latest/api-reference the fields of an annotation.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import Field

from functions.jobs.ingest.readers.decoding import read_any_text, read_unicode_text
from functions.jobs.ingest.readers.fields import Block, ExternalModel, Line, Moment, Tags
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.highlights import drop_empty, make_page_source, make_section
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    make_refusal,
)
from functions.jobs.ingest.readers.tables import InvalidRow, list_columns, read_rows
from functions.jobs.ingest.readers.validation import describe_faults, parse_json, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.knowledge.source import Section, Source

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file."""
_TYPE: Final = "Annotation/Reply Type"
_COLUMNS: Final = {
    "created": ("Creation Date", "Created at"),
    "uri": ("URL",),
    "quote": ("Quote",),
    "user": ("User", "Author"),
    "text": ("Body", "Comment/Body", "Comment"),
    "tags": ("Tags",),
    "page": ("Page",),
}
"""The columns of a table by the names of fields. They had other names in earlier versions."""
_JSON_KEYS: Final = re.compile(r'"export_userid"\s*:|"TextQuoteSelector"|"incontext"\s*:')
_NAME: Final = re.compile(r"(?:acct:)?([^@]*)")


class _Selector(ExternalModel):
    """A part of where an annotation is: the quotation, the page, or the chapter of an EPUB."""

    type: Line = None
    exact: Block = ""
    label: Line = None
    title: Line = None


class _Target(ExternalModel):
    selector: tuple[_Selector, ...] | None = None


class _Document(ExternalModel):
    title: tuple[str, ...] | str | None = None


class _Links(ExternalModel):
    incontext: Line = None


class _Annotation(ExternalModel):
    """An annotation; `references` are the annotations that it replies to, the first one first."""

    id: Line = None
    uri: Block = Field(min_length=1)
    text: Block = ""
    tags: Tags = ()
    created: Moment = None
    user: Line = None
    references: tuple[str, ...] | None = None
    target: tuple[_Target, ...] | None = None
    document: _Document | None = None
    links: _Links | None = None

    def find(self, kind: str) -> _Selector:
        """Return the selector of a kind, which may be empty."""
        selectors = (selector for part in self.target or () for selector in part.selector or ())
        return next((item for item in selectors if item.type == kind), _Selector())


class _Item(NamedTuple):
    """An annotation with its sections' text so far, and warnings about its fields."""

    annotation: _Annotation
    notes: list[str]
    warnings: tuple[str, ...]


def recognizes_json(beginning: str) -> bool:
    """Return whether a JSON file that begins like this has annotations of Hypothesis."""
    return bool(_JSON_KEYS.search(beginning))


def recognizes_table(beginning: str) -> bool:
    """Return whether a table that begins like this is one of Hypothesis."""
    return {_TYPE.casefold(), "url", "quote"} <= list_columns(beginning)


def read_json(file: SourceFile) -> Iterator[Record]:
    """Yield the pages of an export, of a response of the API, or of a list of annotations."""
    export = parse_json(read_unicode_text(file.path, MAX_BYTES))
    own_user = export.get("export_userid") if isinstance(export, dict) else None
    if isinstance(export, dict):
        export = export.get("annotations", export.get("rows"))
    if not isinstance(export, list):
        raise Unreadable("is not an export of Hypothesis: it has no list of annotations")
    numbered = ((f"annotation {number}", raw) for number, raw in enumerate(export, start=1))
    yield from _read_pages(file, numbered, own_user)


def read_table(file: SourceFile) -> Iterator[Record]:
    """Yield the pages of a table, and the rows that cannot be read."""
    text, warnings = read_any_text(file.path, MAX_BYTES)
    names = {name: field for field, columns in _COLUMNS.items() for name in columns}
    rows: list[tuple[str, Any]] = []
    for row in read_rows(text, (*names, _TYPE)):
        if isinstance(row, InvalidRow):
            yield make_refusal(f"{file.name} line {row.line}", row.reason)
            continue
        raw: dict[str, Any] = {
            names[column]: cell for column, cell in row.cells.items() if column in names
        }
        quote = {"type": "TextQuoteSelector", "exact": raw.pop("quote", "")}
        page = {"type": "PageSelector", "label": raw.pop("page", "")}
        rows.append((f"line {row.line}", raw | {"target": [{"selector": [quote, page]}]}))
    yield from _read_pages(file, rows, None, warnings)


def _read_pages(
    file: SourceFile,
    numbered: Iterable[tuple[str, Any]],
    own_user: str | None,
    warnings: tuple[str, ...] = (),
) -> Iterator[Record]:
    """Yield a record for each annotated page, and one for each annotation that is not valid.

    A reply belongs to its annotation. What others wrote has their name, if one's own is known.
    """
    pages: dict[str, list[_Item]] = {}
    by_id: dict[str | None, _Item] = {}
    for place, raw in numbered:
        try:
            optional = {"created", "tags", "target", "document", "links", "references", "user"}
            annotation, faults = validate(_Annotation, raw, optional)
        except Unreadable as error:
            yield make_refusal(f"{file.name} {place}", str(error))
            continue
        name = _NAME.match(annotation.user or "")
        is_other = own_user and annotation.user and annotation.user != own_user
        note = f"{name[1]}: {annotation.text}" if is_other and name else annotation.text
        if annotation.references and (parent := by_id.get(annotation.references[0])):
            parent.notes.append(note)
            continue
        item = _Item(annotation, [note], describe_faults(faults))
        by_id[annotation.id] = item
        pages.setdefault(annotation.uri, []).append(item)
    for url, items in pages.items():
        yield Record(f"{file.name}: {url}", partial(_make_source, url, items, warnings))
        warnings = ()


def _make_source(url: str, items: list[_Item], warnings: tuple[str, ...]) -> Source:
    documents = (item.annotation.document for item in items)
    titles = (document.title for document in documents if document and document.title)
    title = next(titles, url)
    sections, counted = drop_empty([_make_section(item) for item in items])
    source = make_page_source(
        "hypothesis", url, title if isinstance(title, str) else title[0], sections
    )
    faults = dict.fromkeys(warning for item in items for warning in item.warnings)
    return replace(source, warnings=(*warnings, *faults, *counted))


def _make_section(item: _Item) -> Section:
    annotation = item.annotation
    section = make_section(
        annotation.find("TextQuoteSelector").exact,
        "\n\n".join(filter(None, item.notes)),
        page=annotation.find("PageSelector").label,
        chapter=annotation.find("EPUBContentSelector").title,
    )
    return replace(
        section,
        tags=annotation.tags,
        highlight_url=annotation.links.incontext if annotation.links else None,
        highlighted_at=annotation.created,
    )


_FIELDS: Final = {
    "uri": "the address of a source, of which its id is made",
    "document.title": "the title",
    "the quotation, text": "a passage: the quotation, an empty line, the note; replies after it",
    "tags, created": "the tags and the date of the passage",
    "the selectors of page and chapter": "the page and the chapter",
    "links.incontext": "the link of the passage",
}
JSON_FORMAT: Final = Format(
    name="Hypothesis' annotations",
    extensions=(".json",),
    read=read_json,
    max_bytes=MAX_BYTES,
    recognizes=recognizes_json,
    fields=_FIELDS,
    example='{"export_userid": "acct:ann@hypothes.is", "annotations": [{"uri":'
    ' "https://example.com/tests", "text": "So true.", "tags": ["testing"], "target": [{"selector":'
    ' [{"type": "TextQuoteSelector", "exact": "A flaky test is worse than none."}]}]}]}\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
TABLE_FORMAT: Final = Format(
    name="Hypothesis' annotations as a table",
    extensions=(".csv",),
    read=read_table,
    max_bytes=MAX_BYTES,
    recognizes=recognizes_table,
    fields={
        "URL": "the address of a source, of which its id is made, and its title",
        "Quote, Body": "a passage: the quotation, an empty line, the note",
        "Tags, Creation Date, Page": "the tags, the date and the page of the passage",
    },
    example=f"Creation Date,URL,Group,{_TYPE},Quote,User,Body,Tags,Page\n"
    "2024-05-31 16:41,https://example.com/tests,Public,Annotation,"
    'A flaky test is worse than none.,ann,So true.,"testing,ci",12\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
