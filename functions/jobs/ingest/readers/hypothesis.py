"""Reads annotations that Hypothesis exports as JSON or CSV, or that its API returns.

`services/annotations-exporter` in github.com/hypothesis/client defines both files. The fields of an
annotation are documented at https://h.readthedocs.io/en/latest/api-reference.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from functions.jobs.ingest.readers.decoding import read_any_text, read_unicode_text
from functions.jobs.ingest.readers.fields import (
    Block,
    ExternalModel,
    Line,
    Moment,
    Tags,
    Title,
)
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.highlights import drop_empty, make_page_source, make_section
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    make_refusal,
)
from functions.jobs.ingest.readers.tables import list_columns, read_rows, split_rows
from functions.jobs.ingest.readers.validation import describe_faults, parse_json, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from shared.knowledge.source import Source

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file."""
_TYPE: Final = "Annotation/Reply Type"
_FIELDS_BY_COLUMN: Final = {
    **dict.fromkeys(("Creation Date", "Created at"), "created"),
    "URL": "uri",
    "Quote": "quote",
    **dict.fromkeys(("Body", "Comment/Body", "Comment"), "text"),
    "Tags": "tags",
    "Page": "page",
}
"""The field of each column of a table. Some columns had other names in earlier versions."""
_JSON_KEYS: Final = re.compile(r'"export_userid"\s*:|"TextQuoteSelector"|"incontext"\s*:')


class _Annotation(ExternalModel):
    uri: Block = Field(min_length=1)
    title: Title = None
    quote: Block = ""
    text: Block = ""
    tags: Tags = ()
    created: Moment = None
    page: Line = None
    chapter: Title = None
    link: Line = None


def recognizes_json(beginning: str) -> bool:
    """Return whether a JSON file that begins like this contains Hypothesis annotations."""
    return bool(_JSON_KEYS.search(beginning))


def recognizes_table(beginning: str) -> bool:
    """Return whether a table that begins like this comes from Hypothesis."""
    columns = list_columns(beginning)
    is_own = _TYPE.casefold() in columns or {"type", "comment"} <= columns
    return is_own and {"url", "quote"} <= columns


def read_json(file: SourceFile) -> Iterator[Record]:
    """Yield the pages of an export, of an API response, or of a list of annotations."""
    export = parse_json(read_unicode_text(file.path, MAX_BYTES))
    own_user = export.get("export_userid") if isinstance(export, dict) else None
    if isinstance(export, dict):
        export = export.get("annotations", export.get("rows"))
    if not isinstance(export, list):
        raise Unreadable("is not a Hypothesis export: it has no list of annotations")
    numbered = ((f"annotation {number}", raw) for number, raw in enumerate(export, start=1))
    yield from _read_pages(file, numbered, partial(_flatten, own_user=own_user))


def _flatten(raw: Any, own_user: str | None) -> dict[str, Any]:
    """Return the fields of an annotation. Texts by others are preceded by their names.

    Args:
        own_user: The user who exported the file. If None, no names are added.

    Raises:
        Unreadable: The annotation has another layout.
    """
    try:
        selectors = {
            selector["type"]: selector
            for target in raw.get("target") or ()
            for selector in target.get("selector") or ()
        }
        title = (raw.get("document") or {}).get("title")
        user, text = raw.get("user"), raw.get("text")
        if own_user and user and user != own_user and text:
            text = f"{user.removeprefix('acct:').partition('@')[0]}: {text}"
        return {
            **{name: raw.get(name) for name in ("uri", "tags", "created")},
            "text": text,
            "title": title[0] if isinstance(title, list) and title else title or None,
            "quote": selectors.get("TextQuoteSelector", {}).get("exact"),
            "page": selectors.get("PageSelector", {}).get("label"),
            "chapter": selectors.get("EPUBContentSelector", {}).get("title"),
            "link": (raw.get("links") or {}).get("incontext"),
        }
    except (AttributeError, LookupError, TypeError) as error:
        raise Unreadable("is not a Hypothesis annotation") from error


def read_table(file: SourceFile) -> Iterator[Record]:
    """Yield the pages of a table, and the rows that cannot be read."""
    text, warnings = read_any_text(file.path, MAX_BYTES)
    rows, refusals = split_rows(file, read_rows(text, _FIELDS_BY_COLUMN))
    yield from refusals
    numbered = ((f"line {row.line}", row.cells) for row in rows)
    yield from _read_pages(file, numbered, _name_fields, warnings)


def _name_fields(cells: Mapping[str, str]) -> dict[str, Any]:
    return {_FIELDS_BY_COLUMN.get(column, ""): cell.strip() for column, cell in cells.items()}


def _read_pages(
    file: SourceFile,
    numbered: Iterable[tuple[str, Any]],
    flatten: Callable[[Any], dict[str, Any]],
    warnings: tuple[str, ...] = (),
) -> Iterator[Record]:
    """Yield a record for each annotated page, and one for each annotation that is not valid."""
    pages: dict[str, list[_Annotation]] = defaultdict(list)
    for place, raw in numbered:
        try:
            annotation, faults = validate(
                _Annotation,
                flatten(raw),
                _Annotation.model_fields.keys() - {"uri", "text", "quote"},
            )
        except Unreadable as error:
            yield make_refusal(f"{file.name} {place}", str(error))
            continue
        warnings += tuple(f"{place}: {warning}" for warning in describe_faults(faults))
        pages[annotation.uri].append(annotation)
    for url, items in pages.items():
        yield Record(f"{file.name}: {url}", partial(_make_source, url, items, warnings))
        warnings = ()


def _make_source(url: str, items: list[_Annotation], warnings: tuple[str, ...]) -> Source:
    title = next((item.title for item in items if item.title), url)
    sections, counted = drop_empty(
        [
            replace(
                make_section(item.quote, item.text, page=item.page, chapter=item.chapter),
                tags=item.tags,
                highlight_url=item.link,
                highlighted_at=item.created,
            )
            for item in items
        ]
    )
    source = make_page_source("hypothesis", url, title, sections)
    return replace(source, warnings=(*warnings, *counted))


_FIELDS: Final = {
    "uri": "the address of a source; its id is made from it",
    "document.title": "the title",
    "quotation, text": "a passage: the quotation, an empty line and the note, which begins with the"
    " name of its author if somebody else wrote it; replies are separate passages",
    "tags, created": "the tags and the date of the passage",
    "page and chapter selectors": "the page and the chapter",
    "links.incontext": "the link of the passage",
}
JSON_FORMAT: Final = Format(
    name="Hypothesis annotations",
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
    name="Hypothesis annotations as a table",
    extensions=(".csv",),
    read=read_table,
    max_bytes=MAX_BYTES,
    recognizes=recognizes_table,
    fields={
        "URL": "the address and the title of a source; its id is made from it",
        "Quote, Body": "a passage: the quotation, an empty line and the note",
        "Tags, Creation Date, Page": "the tags, the date and the page of the passage",
    },
    example=f"Creation Date,URL,Group,{_TYPE},Quote,User,Body,Tags,Page\n"
    "2024-05-31 16:41,https://example.com/tests,Public,Annotation,"
    'A flaky test is worse than none.,ann,So true.,"testing,ci",12\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
