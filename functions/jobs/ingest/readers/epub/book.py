"""Reads EPUB books: one section for each chapter, or for each document of a chapter.

EPUB 3.3 (W3C) and EPUB 2 (OPF 2.0.1 with its NCX) are supported. Packages are parsed with lxml
(BSD-3-Clause, which trafilatura needs anyway): unlike the standard library's parser, lxml can be
configured not to expand entities.
"""

from __future__ import annotations

import re
from functools import partial
from html.entities import html5
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.jobs.ingest.readers.archives import open_archive
from functions.jobs.ingest.readers.decoding import UTF16_MARKS
from functions.jobs.ingest.readers.epub.package import EPUB_TYPE, read_package
from functions.jobs.ingest.readers.fields import clean, to_headline
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.html.blocks import read_blocks
from functions.jobs.ingest.readers.html.decoding import decode_html
from functions.jobs.ingest.readers.html.formulas import replace_formulas
from functions.jobs.ingest.readers.html.inline_markup import replace_inline_markup
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
)
from functions.jobs.ingest.readers.xml_parts import find_elements, parse_xml
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from functions.jobs.ingest.readers.archives import Archive
    from functions.jobs.ingest.readers.epub.package import Package
    from functions.jobs.ingest.readers.html.blocks import Block, Element

MAX_BYTES: Final = 100 * MEGABYTE
"""The maximum size of a file. Most of a large book is images, which are not read."""
MAX_CHARACTERS: Final = 16_000_000
"""The maximum length of the text. The longest novels have a quarter of that."""
_ENCRYPTION: Final = "META-INF/encryption.xml"
_FONT_OBFUSCATION: Final = frozenset(
    {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
)
"""The algorithms of font obfuscation, which is not DRM (EPUB 3.3, 4.3.5)."""
_PROTECTED: Final = "is protected by DRM: only the app of the store that sold it can open it"
_IGNORED_TAGS: Final = frozenset(
    [
        "audio",
        "head",
        "iframe",
        "img",
        "nav",
        "object",
        "rt",
        "rp",
        "script",
        "style",
        "svg",
        "template",
        "video",
    ]
)
_IGNORED_TYPES: Final = frozenset(
    [
        "endnote",
        "endnotes",
        "footnote",
        "footnotes",
        "noteref",
        "pagebreak",
        "rearnote",
        "rearnotes",
        "toc",
    ]
)
"""The values of `epub:type` on elements that are not running text."""
_IGNORED_ROLES: Final = frozenset(f"doc-{role}" for role in _IGNORED_TYPES)
"""The ARIA roles of such elements."""
_CHAPTER_HEADINGS: Final = frozenset({"h1", "h2"})
_HEADING: Final = re.compile("h[1-6]")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_XML_DECLARATION: Final = re.compile(r"\A\s*<\?xml\b[^<>]*\?>\s*")
"""A declaration, which names the encoding before the document was decoded."""
_ENTITY: Final = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES: Final = frozenset({"amp", "lt", "gt", "quot", "apos"})


class _ChapterText(NamedTuple):
    """The text of a section, and the title of its chapter, if there is one."""

    chapter: str | None
    text: str


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a book."""
    yield Record(file.name, partial(_make_source, file))


def _make_source(file: SourceFile) -> Source:
    if reason := describe_excess(file.path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    with open_archive(file.path) as archive:
        _refuse_protected(archive)
        package = read_package(archive)
        sections, warnings = _read_sections(archive, package)
    if not sections:
        raise Unreadable("has no text: its pages may be images")
    metadata = package.metadata
    return Source(
        source_id=file.source_id,
        title=to_headline(metadata.title or PurePosixPath(file.relative_path).stem) or "Untitled",
        **{**metadata.source_fields, "category": "books"},
        sections=tuple(
            Section(
                section.text,
                locators=((0, Locator(chapter=section.chapter)),) if section.chapter else (),
                published_at=metadata.date,
                saved_at=file.modified_at,
            )
            for section in sections
        ),
        warnings=warnings,
    )


def _refuse_protected(archive: Archive) -> None:
    """Refuse a book with encrypted documents. Obfuscated fonts are allowed."""
    if _ENCRYPTION not in archive:
        return
    for data in find_elements(parse_xml(archive.read(_ENCRYPTION)), "EncryptedData"):
        method = next(find_elements(data, "EncryptionMethod"), None)
        if method is None or method.get("Algorithm") not in _FONT_OBFUSCATION:
            raise Unreadable(_PROTECTED)


def _read_sections(
    archive: Archive, package: Package
) -> tuple[list[_ChapterText], tuple[str, ...]]:
    """Return the sections, and warnings about documents that cannot be read.

    Without a table of contents, headings of the first two levels begin chapters.
    """
    sections: list[_ChapterText] = []
    warnings: list[str] = []
    chapter: str | None = None
    characters = 0
    for path in package.documents:
        try:
            blocks = list(_read_document(archive.read(path)))
        except Unreadable as error:
            reason = str(error)
            warnings.append(reason if path in reason else f"{path} {reason}")
            continue
        titles = package.chapters.get(path, {})
        first_id = next(iter(titles), "")
        if not any(first_id in block.ids for block in blocks):
            # A table of contents may name an id that its document does not have.
            chapter = titles.get(first_id, chapter)
        added, chapter = _split_chapters(
            blocks, titles, titles.get("", chapter), has_toc=bool(package.chapters)
        )
        sections += added
        characters += sum(len(section.text) for section in added)
        if characters > MAX_CHARACTERS:
            raise Unreadable(f"has more than {MAX_CHARACTERS // 1_000_000} million characters")
    if warnings and not sections:
        raise Unreadable(f"has no chapter that can be read: {warnings[0]}")
    return sections, tuple(f"{warning}; the other chapters are kept" for warning in warnings)


def _split_chapters(
    blocks: Sequence[Block], titles: dict[str, str], chapter: str | None, *, has_toc: bool
) -> tuple[list[_ChapterText], str | None]:
    """Split a document at its chapters. Headings alone belong to the chapter below them.

    Args:
        titles: The titles of the chapters in the document, by the ids at which they begin.
        chapter: The chapter that goes on at the beginning of the document.

    Returns:
        The sections, and the chapter that goes on at the end.
    """
    sections: list[_ChapterText] = []
    texts: list[str] = []
    has_prose = False
    for block in blocks:
        # A part and its first chapter may begin in the same block. The chapter comes last.
        title = next((titles[key] for key in reversed(titles) if key in block.ids), None)
        if block.tag in _CHAPTER_HEADINGS and not has_toc:
            title = to_headline(block.text)
        if title and title != chapter:
            if has_prose:
                sections.append(_ChapterText(chapter, PARAGRAPH.join(texts)))
                texts, has_prose = [], False
            chapter = title
        if text := clean(block.text).rstrip().lstrip("\n" if texts else None):
            texts.append(text)
            has_prose = has_prose or not _HEADING.fullmatch(block.tag)
    if texts:
        sections.append(_ChapterText(chapter, PARAGRAPH.join(texts)))
    return sections, chapter


def _read_document(data: bytes) -> Iterator[Block]:
    """Yield the blocks of a document.

    Raises:
        Unreadable: The document is neither XHTML nor HTML.
    """
    from lxml import etree

    if not data.startswith(UTF16_MARKS) and len(_CONTROLS.findall(data)) > len(data) // 100:
        raise Unreadable("is not XHTML, and may be encrypted")
    text, _ = decode_html(data)
    text = _replace_html_entities(_XML_DECLARATION.sub("", text))
    try:
        tree = parse_xml(text.encode("utf-8", "replace"))
    except Unreadable:
        # Many old books are not well-formed. The HTML parser ignores entity declarations.
        parser = etree.HTMLParser(
            encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True
        )
        try:
            tree = etree.fromstring(text.encode("utf-8", "replace"), parser)
        except (etree.LxmlError, ValueError) as error:
            raise Unreadable("is not XHTML") from error
        if tree is None:
            return
    replace_formulas(tree)
    replace_inline_markup(tree)
    yield from read_blocks(tree, _is_ignored)


def _is_ignored(tag: str, element: Element) -> bool:
    """Return whether an element is not part of the running text, such as a note or a note mark."""
    types = (element.get(EPUB_TYPE) or "").split()
    return (
        tag in _IGNORED_TAGS
        or not _IGNORED_TYPES.isdisjoint(types)
        or element.get("role") in _IGNORED_ROLES
    )


def _replace_html_entities(text: str) -> str:
    """Replace entities that HTML defines and XML does not, such as `&nbsp;`."""

    def replace_entity(match: re.Match[str]) -> str:
        name = match[1]
        return match[0] if name in _XML_ENTITIES else html5.get(f"{name};", match[0])

    return _ENTITY.sub(replace_entity, text)


FORMAT: Final = Format(
    name="EPUB",
    extensions=(".epub",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "documents of the spine": "the passages, without footnotes, note marks, images and tables"
        " of contents",
        "table of contents": "the chapter of a passage; if missing, the headings of levels one and"
        " two",
        "dc:title": "the title; if missing, the file's name",
        "dc:creator": "the author; translators, illustrators and the like are left out",
        "dc:language": "the language",
        "dc:source": "the URL of the original, if it is on the web",
        "dc:date": "the publication date, for a new text; if missing, the file's date",
    },
    example="Sails.epub: 12 chapters, not protected by DRM\n",
)
