"""Reads Carrel exports: sources and their chunks, in the format of `shared.knowledge.export_lines`.

Ids, texts and chunk boundaries are kept unchanged.
"""

from __future__ import annotations

import json
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from functions.jobs.ingest.readers.decoding import decode_utf8
from functions.jobs.ingest.readers.source_file import Record, Unreadable
from functions.jobs.ingest.readers.validation import parse_json
from shared.core.ids import SOURCE_ID_PATTERN, IdKind, has_kind
from shared.knowledge.export_lines import FORMAT, HEADER_FIELD
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import (
    SOURCE_FIELDS,
    DateMeaning,
    Locator,
    NoteFields,
    Section,
    Source,
    SourceFields,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOURCE_FIELDS: Final = TypeAdapter(SourceFields)
_SourceId = Annotated[str, Field(pattern=f"^{SOURCE_ID_PATTERN}$")]
_Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


class _Line(NamedTuple):
    """The number of a line, and its JSON value, or why the line cannot be read."""

    number: int
    value: Any | Unreadable


class _Exported(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Note(_Exported):
    """The fields that only notes have."""

    text: str
    saved_by: Annotated[str, Field(min_length=1)]
    revision: Annotated[int, Field(ge=1)]


class _OriginValues(_Exported):
    """The original values of edited fields. Fields that were not edited are not set."""

    title: Annotated[str, Field(min_length=1)] = ""
    author: str | None = None
    tags: tuple[str, ...] = ()


class _OwnFields(_Exported):
    """The fields of a source except those that its chunks share."""

    source_id: _SourceId
    title: Annotated[str, Field(min_length=1)]
    links_to: tuple[_SourceId, ...] | None = None
    unread: str | None = None
    markdown: bool | None = None
    created_at: _Moment | None = None
    updated_at: _Moment | None = None
    origin_values: _OriginValues = _OriginValues()
    note: _Note | None = None


class _Card(_Exported):
    summary: str
    takeaways: tuple[str, ...] = ()
    model: str | None = None
    generated_at: _Moment | None = None


class _Chunk(_Exported):
    chunk_id: str | None = None
    text: Annotated[str, Field(min_length=1)]
    start: Annotated[int, Field(ge=0)]
    tags: tuple[str, ...] = ()
    origin_values: _OriginValues | None = None
    readwise_url: str | None = None
    highlight_url: str | None = None
    highlighted_at: _Moment | None = None
    dated_at: _Moment | None = None
    date_meaning: DateMeaning | None = None
    page: int | None = None
    page_starts: tuple[int, ...] = ()
    chapter: str | None = None
    location: str | None = None
    card: _Card | None = None


def is_header(line: bytes) -> bool:
    """Return whether the first line of a file is the header of a Carrel export."""
    return HEADER_FIELD.encode() in line[: 2 * len(HEADER_FIELD)]


def read_records(name: str, header: bytes, lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
    """Yield the sources of an export.

    Args:
        lines: The other lines, with their numbers.

    Raises:
        Unreadable: Another version of Carrel wrote the file, or its header is not valid.
    """
    version = parse_json(decode_utf8(header))
    if not isinstance(version, dict) or HEADER_FIELD not in version:
        raise Unreadable(f"has a first line that mentions {HEADER_FIELD}, but is not an export")
    if version[HEADER_FIELD] != FORMAT:
        raise Unreadable("is an export of another Carrel version: update this installation")
    group: list[_Line] = []  # a line with the source, the lines of its chunks, and their number
    for number, line in lines:
        value = _parse(line)
        if group and isinstance(value, dict) and "source" in value:
            yield Record(f"{name} line {group[0].number}", partial(_build_source, group))
            group = []
        group.append(_Line(number, value))
    if group:
        yield Record(f"{name} line {group[0].number}", partial(_build_source, group))


def _parse(line: bytes) -> Any | Unreadable:
    """Parse a line. Half of a surrogate pair, which UTF-8 cannot encode, is rejected."""
    try:
        value = parse_json(decode_utf8(line.rstrip()))
        if b"\\u" in line:  # only an escape can be half of a pair
            json.dumps(value, ensure_ascii=False).encode()
    except Unreadable as error:
        return error
    except UnicodeEncodeError as error:
        return Unreadable(f"has a character that UTF-8 cannot encode: {error.reason}")
    return value


def _build_source(group: list[_Line]) -> Source:
    """Build a source from its lines.

    Raises:
        Unreadable: A line is missing or not valid.
    """
    values = [_require_object(line) for line in group]
    first, *chunks = values
    end = chunks.pop() if chunks else {}
    if end.get("chunks") != len(chunks) or not chunks:
        raise Unreadable(f"is incomplete: {len(chunks)} passages were read")
    try:
        own = _OwnFields.model_validate(first.get("source"))
        fields = _SOURCE_FIELDS.validate_python(first["source"])
        sections = [_to_section(_Chunk.model_validate(line.get("chunk"))) for line in chunks]
    except ValidationError as error:
        [fault, *_] = error.errors(include_url=False, include_input=False)
        path = ".".join(map(str, fault["loc"]))
        raise Unreadable(f"{path}: {fault['msg']}") from error
    edited = own.origin_values.model_dump(exclude_unset=True)
    return Source(
        **{field: edited.get(field, getattr(fields, field)) for field in SOURCE_FIELDS},
        sections=tuple(sections),
        links_to=own.links_to,
        unread=own.unread,
        markdown=own.markdown,
        created_at=own.created_at,
        updated_at=own.updated_at,
        note=NoteFields(**own.note.model_dump()) if own.note else None,
        overrides={name: getattr(fields, name) for name in edited},
        # The base may know highlights that are newer than the export, or that it leaves out.
        adds_only="left_out" in end
        or has_kind(own.source_id, IdKind.KINDLE_BOOK, IdKind.READWISE_BOOK, IdKind.EXPORT),
    )


def _require_object(line: _Line) -> dict[str, Any]:
    if isinstance(line.value, Unreadable):
        raise Unreadable(f"line {line.number} {line.value}")
    if not isinstance(line.value, dict):
        raise Unreadable(f"line {line.number} is not a JSON object")
    return line.value


def _to_section(chunk: _Chunk) -> Section:
    card = chunk.card
    dates = {"highlighted_at": chunk.highlighted_at}
    if chunk.date_meaning:
        dates[f"{chunk.date_meaning}_at"] = chunk.dated_at
    return Section(
        chunk.text,
        tags=chunk.tags,
        readwise_url=chunk.readwise_url,
        highlight_url=chunk.highlight_url,
        **dates,
        locators=(
            (0, Locator(chunk.page, chunk.chapter, chunk.location)),
            *(
                (start, Locator(page))
                for page, start in enumerate(chunk.page_starts, start=(chunk.page or 0) + 1)
            ),
        ),
        start=chunk.start,
        chunk_id=chunk.chunk_id,
        card=KnowledgeCard(card.summary, card.takeaways, card.model, card.generated_at)
        if card
        else None,
        origin_tags=chunk.origin_values.tags if chunk.origin_values else None,
    )
