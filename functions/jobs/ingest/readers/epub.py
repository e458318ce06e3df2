"""EPUB books: a section for each chapter, or each document of a chapter, in reading order.

The layout is that of EPUB 3.3 (W3C) and of EPUB 2 (OPF 2.0.1 with its NCX). Packages are read with
lxml (BSD-3-Clause, which trafilatura needs anyway) because, unlike the parser of the standard
library, it can be told not to expand entities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from html.entities import html5
from pathlib import PurePosixPath
from posixpath import dirname, normpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from functions.jobs.ingest.readers.archives import open_archive
from functions.jobs.ingest.readers.blocks import local_name, read_blocks
from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    excess,
    validated,
)
from functions.jobs.ingest.readers.fields import DocumentMetadata, clean, headline
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.text_files import source_id_of
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.archives import Archive
    from functions.jobs.ingest.readers.blocks import Block, Element

MAX_BYTES: Final = 100 * MEGABYTE
"""Larger files are refused. Most of a large book is images, which are not read."""
MAX_CHARACTERS: Final = 16_000_000
"""Books with more text are refused. The longest novels have a quarter of that."""
_MAX_DOCUMENTS: Final = 5_000
"""Books with more documents are refused."""
_CHAPTER_LEVELS: Final = 2
"""The upper levels of the table of contents, which begin sections: parts and chapters, or chapters
and their subsections."""
_CONTAINER: Final = "META-INF/container.xml"
_ENCRYPTION: Final = "META-INF/encryption.xml"
_FONT_OBFUSCATION: Final = frozenset(
    {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
)
"""The algorithms of font obfuscation, which is not DRM (EPUB 3.3, 4.3.5)."""
_PROTECTED: Final = "is protected by DRM: only the app of the store that sold it can open it"
_DOCUMENT_MEDIA_TYPES: Final = frozenset(
    {"application/xhtml+xml", "text/html", "application/x-dtbook+xml"}
)
_NCX_MEDIA_TYPE: Final = "application/x-dtbncx+xml"
_EPUB_TYPE: Final = "{http://www.idpf.org/2007/ops}type"
_IGNORED_TAGS: Final = frozenset(
    [
        "audio",
        "head",
        "iframe",
        "img",
        "math",
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
_IGNORED_ROLES: Final = frozenset(f"doc-{role}" for role in _IGNORED_TYPES)
_IGNORED_GUIDE_TYPES: Final = frozenset({"cover", "toc"})
_WEB_SCHEMES: Final = ("http://", "https://")
_NO_DATE: Final = "0101-"
"""calibre writes the year 101 for a date that it does not know."""
_ENTITY: Final = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES: Final = frozenset({"amp", "lt", "gt", "quot", "apos"})
_NOTE_MARK: Final = re.compile(r"\W*(?:\d{1,4}|[*†‡§]{1,3}|[ivx]{1,6})\W*")


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a book."""
    yield file.name, partial(_make_source, file)


@dataclass(frozen=True, slots=True)
class _Package:
    """A book as its package document describes it.

    Attributes:
        metadata: The metadata.
        documents: The paths of the documents in reading order.
        chapters: The titles of chapters, by the path of the document and the id of the element
            that begins them. The id "" stands for the beginning of the document.
    """

    metadata: DocumentMetadata
    documents: tuple[str, ...]
    chapters: dict[str, dict[str, str]]


def _make_source(file: SourceFile) -> Source:
    if reason := excess(file.path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    with open_archive(file.path) as archive:
        _refuse_protected(archive)
        package = _read_package(archive)
        sections, warnings = _read_sections(archive, package)
    if not sections:
        raise Unreadable("has no text: its pages may be images")
    metadata = package.metadata
    return Source(
        source_id=file.source_id or source_id_of(file.collection, file.key),
        title=headline(metadata.title or PurePosixPath(file.key).stem) or "Untitled",
        **{**metadata.source_fields, "category": "books"},
        sections=tuple(
            Section(
                text,
                locators=((0, Locator(chapter=chapter)),) if chapter else (),
                written_at=metadata.highlighted_at or file.modified_at,
            )
            for chapter, text in sections
        ),
        warnings=warnings,
    )


def _refuse_protected(archive: Archive) -> None:
    """Refuse a book with encrypted documents. Obfuscated fonts are allowed."""
    if _ENCRYPTION not in archive:
        return
    for data in _elements(_parse_xml(archive.read(_ENCRYPTION)), "EncryptedData"):
        method = next(_elements(data, "EncryptionMethod"), None)
        if method is None or method.get("Algorithm") not in _FONT_OBFUSCATION:
            raise Unreadable(_PROTECTED)


def _read_package(archive: Archive) -> _Package:
    """Read the package document, which the container names, and the table of contents.

    Documents that are not part of the running text are left out: covers, tables of contents, and
    those that the spine marks as not linear.
    """
    container = _parse_xml(archive.read(_CONTAINER))
    roots = (root.get("full-path") for root in _elements(container, "rootfile"))
    path = next(filter(None, roots), None)
    if path is None:
        raise Unreadable("is not an EPUB: its container names no package document")
    package = _parse_xml(archive.read(path))
    base = dirname(path)
    items = {item.get("id"): item for item in _elements(package, "item")}
    paths = {key: _resolve(base, item.get("href"))[0] for key, item in items.items()}
    ignored = {
        _resolve(base, reference.get("href"))[0]
        for reference in _elements(package, "reference")
        if (reference.get("type") or "").lower() in _IGNORED_GUIDE_TYPES
    }
    nav_paths = {
        paths[key] for key, item in items.items() if "nav" in (item.get("properties") or "").split()
    }
    ncx_paths = [
        paths[key] for key, item in items.items() if item.get("media-type") == _NCX_MEDIA_TYPE
    ]
    documents = tuple(
        dict.fromkeys(
            paths[key]
            for reference in _elements(package, "itemref")
            if (key := reference.get("idref")) in items
            and reference.get("linear") != "no"
            and items[key].get("media-type") in _DOCUMENT_MEDIA_TYPES
            and paths[key] not in ignored | nav_paths
        )
    )
    if len(documents) > _MAX_DOCUMENTS:
        raise Unreadable(f"has more than {_MAX_DOCUMENTS:,} documents")
    return _Package(
        _read_metadata(package), documents, _read_chapters(archive, [*nav_paths, *ncx_paths])
    )


def _read_metadata(package: Element) -> DocumentMetadata:
    def values(name: str) -> list[str]:
        texts = ("".join(element.itertext()).strip() for element in _elements(package, name))
        return [text for text in texts if text]

    urls = (text for text in values("source") if text.lower().startswith(_WEB_SCHEMES))
    fields = {
        "title": next(iter(values("title")), None),
        "author": values("creator"),
        "language": next(iter(values("language")), None),
        "url": next(urls, None),
        "date": next((date for date in values("date") if not date.startswith(_NO_DATE)), None),
    }
    metadata, _ = validated(DocumentMetadata, fields, set(fields))
    return metadata


def _read_chapters(archive: Archive, paths: list[str]) -> dict[str, dict[str, str]]:
    """Return the chapters of the first table of contents that is not empty, if there is one."""
    for path in paths:
        try:
            tree = _parse_xml(archive.read(path))
        except Unreadable:
            continue
        chapters: dict[str, dict[str, str]] = {}
        for href, title in _iterate_contents(tree):
            document, fragment = _resolve(dirname(path), href)
            if title:
                chapters.setdefault(document, {}).setdefault(fragment, title)
        if chapters:
            return chapters
    return {}


def _iterate_contents(tree: Element) -> Iterator[tuple[str | None, str]]:
    """Yield the link targets and titles of a navigation document (EPUB 3) or an NCX (EPUB 2)."""
    for point in _elements(tree, "navPoint"):
        # A navPoint of the first level has no other above it, and a link of that level one list.
        if _count_ancestors(point, "navPoint") < _CHAPTER_LEVELS:
            label = next(_elements(point, "text"), None)
            content = next((child for child in point if local_name(child) == "content"), None)
            if label is not None and content is not None:
                yield content.get("src"), headline(label.text or "")
    for nav in _elements(tree, "nav"):
        if "toc" in (nav.get(_EPUB_TYPE) or "toc").split():
            for link in _elements(nav, "a"):
                if _count_ancestors(link, "ol") <= _CHAPTER_LEVELS:
                    yield link.get("href"), headline("".join(link.itertext()))


def _count_ancestors(element: Element, name: str) -> int:
    return sum(1 for parent in element.iterancestors() if local_name(parent) == name.lower())


def _read_sections(
    archive: Archive, package: _Package
) -> tuple[list[tuple[str | None, str]], tuple[str, ...]]:
    """Return the title of the chapter and the text of each section, and what could not be read."""
    sections: list[tuple[str | None, str]] = []
    warnings: list[str] = []
    chapter: str | None = None
    characters = 0
    for path in package.documents:
        try:
            blocks = list(_read_document(archive.read(path)))
        except Unreadable as error:
            warnings.append(f"{path} {error}")
            continue
        titles = package.chapters.get(path, {})
        texts: list[str] = []
        chapter = titles.get("", chapter)
        for block in blocks:
            title = next((titles[key] for key in titles if key in block.ids), None)
            if title and title != chapter:
                if texts:
                    sections.append((chapter, PARAGRAPH.join(texts)))
                chapter, texts = title, []
            if text := clean(block.text).strip():
                texts.append(text)
                characters += len(text)
        if texts:
            sections.append((chapter, PARAGRAPH.join(texts)))
        if characters > MAX_CHARACTERS:
            raise Unreadable(f"has more than {MAX_CHARACTERS // 1_000_000} million characters")
    if warnings and not sections:
        raise Unreadable(f"has no chapter that can be read: {warnings[0]}")
    return sections, tuple(f"{warning}; the other chapters are kept" for warning in warnings)


def _read_document(data: bytes) -> Iterator[Block]:
    from lxml import etree

    try:
        tree = _parse_xml(_replace_html_entities(data))
    except Unreadable:
        # Many old books are not well-formed. The HTML parser ignores declarations of entities.
        parser = etree.HTMLParser(remove_comments=True, remove_pis=True, no_network=True)
        try:
            tree = etree.fromstring(data, parser)
        except (etree.LxmlError, ValueError) as error:
            raise Unreadable("is not XHTML") from error
        if tree is None:
            return
    yield from read_blocks(tree, _is_ignored)


def _is_ignored(tag: str, element: Element) -> bool:
    """Return whether an element is not part of the running text, such as a note or its mark."""
    types = (element.get(_EPUB_TYPE) or "").split()
    return (
        tag in _IGNORED_TAGS
        or not _IGNORED_TYPES.isdisjoint(types)
        or element.get("role") in _IGNORED_ROLES
        or (tag == "sup" and _is_note_mark(element))
    )


def _is_note_mark(element: Element) -> bool:
    """Return whether a superscript is a link to a note, in a book without `epub:type`."""
    has_link = any(local_name(node) == "a" for node in (*element.iter(), element.getparent()))
    return has_link and bool(_NOTE_MARK.fullmatch("".join(element.itertext())))


def _replace_html_entities(data: bytes) -> bytes:
    """Replace entities that HTML defines and XML does not, such as `&nbsp;`."""
    if b"&" not in data:
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return match[0] if name in _XML_ENTITIES else html5.get(f"{name};", match[0])

    return _ENTITY.sub(replacement, text).encode()


def _parse_xml(data: bytes) -> Any:
    """Parse XML that declares no entities, which could expand without limit or name local files."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        tree = etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise Unreadable("has malformed XML: download it again") from error
    declarations = tree.getroottree().docinfo.internalDTD
    if declarations is not None and any(True for _ in declarations.iterentities()):
        raise Unreadable("declares XML entities, which no book needs")
    return tree


def _elements(tree: Element, name: str) -> Iterator[Element]:
    return (element for element in tree.iter() if local_name(element) == name.lower())


def _resolve(base: str, href: str | None) -> tuple[str, str]:
    """Resolve a link in a document of the folder `base`: its path in the archive, and its fragment.

    A path that leads out of the archive matches none of its members.
    """
    path, _, fragment = (href or "").partition("#")
    return normpath(f"{base}/{unquote(path)}" if base else unquote(path)), unquote(fragment)


FORMAT: Final = Format(
    name="EPUB",
    endings=(".epub",),
    read=records,
    max_bytes=MAX_BYTES,
    fields={
        "documents of the spine": "the passages, without footnotes, images and tables of contents",
        "table of contents": "the chapter of a passage",
        "dc:title": "the title; if missing, the file's name",
        "dc:creator": "the author",
        "dc:language": "the language",
        "dc:source": "the URL of the original, if it is on the web",
        "dc:date": "the date of a new text; if missing, the file's date",
    },
    example="Sails.epub: 12 chapters, not protected by DRM\n",
)
