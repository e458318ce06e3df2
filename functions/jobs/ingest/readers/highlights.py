"""Makes passages of highlights exported by other programs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_headline
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.core.ids import IdKind, make_id
from shared.knowledge.source import Locator, Section, Source
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE: Final = re.compile(r"0*([1-9]\d{0,6})", re.ASCII)


def derive_source_id(program: str, *parts: str | None) -> str:
    """Return the id of an exported source.

    Args:
        parts: What tells the source from others of the same program, such as its address.
    """
    name = "\0".join((program, *(part or "" for part in parts)))
    return make_id(IdKind.EXPORT, unicodedata.normalize("NFKC", name).casefold())


def make_section(
    text: str, note: str = "", *, page: str | None = None, chapter: str | None = None
) -> Section:
    """Return the section of a highlight and the reader's note on it. Its text may be empty.

    Args:
        page: A page number, or a label such as `xii`.
    """
    number = _PAGE.fullmatch(page or "")
    locator = Locator(
        page=int(number[1]) if number else None,
        chapter=chapter,
        location=f"page {page}" if page and not number else None,
    )
    return Section(
        PARAGRAPH.join(filter(None, (text, note))),
        locators=((0, locator),) if locator != Locator() else (),
    )


def make_page_source(program: str, url: str, title: str, sections: tuple[Section, ...]) -> Source:
    """Return the source of a web page."""
    return Source(
        source_id=derive_source_id(program, url),
        title=to_headline(title) or "Untitled",
        origin=program,
        category="articles",
        source_url=url,
        sections=sections,
    )


def drop_empty(sections: Sequence[Section]) -> tuple[tuple[Section, ...], tuple[str, ...]]:
    """Return the sections with text, and a warning that counts the rest, if any.

    Raises:
        Unreadable: No section has text.
    """
    present = tuple(section for section in sections if section.text)
    if not present:
        raise Unreadable("has no highlights and no notes")
    empty = len(sections) - len(present)
    warning = f"has {format_count(empty, 'highlight')} without text, such as a picture; left out"
    return present, (warning,) if empty else ()
