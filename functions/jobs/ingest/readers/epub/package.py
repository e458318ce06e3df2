"""Reads the package of an EPUB: metadata, documents in reading order, and chapter titles."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from functions.jobs.ingest.readers.fields import DocumentMetadata, to_headline
from functions.jobs.ingest.readers.html.blocks import get_local_name
from functions.jobs.ingest.readers.source_file import Unreadable
from functions.jobs.ingest.readers.validation import validate
from functions.jobs.ingest.readers.xml_parts import find_elements, parse_xml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from functions.jobs.ingest.readers.archives import Archive
    from functions.jobs.ingest.readers.html.blocks import Element

_MAX_DOCUMENTS: Final = 5_000
"""The maximum number of documents in a book."""
_CHAPTER_LEVELS: Final = 2
"""How many levels of the table of contents begin sections: parts and chapters, or chapters and
their subsections."""
_CONTAINER: Final = "META-INF/container.xml"
_PICTURES_AND_SOUNDS: Final = ("image/", "audio/", "video/")
"""How the media types of files in the spine begin that are not documents. Others are not trusted:
books name their documents `text/x-oeb1-document` or `application/xml`, too."""
_NCX_MEDIA_TYPE: Final = "application/x-dtbncx+xml"
EPUB_TYPE: Final = "{http://www.idpf.org/2007/ops}type"
_OPF: Final = "http://www.idpf.org/2007/opf"
_AUTHOR_ROLES: Final = frozenset({"aut", ""})
"""The MARC relator codes of authors. A creator without a role counts as an author, too. Other codes
are `trl` for translators and `ill` for illustrators."""
_EVENTS: Final = ("publication", "", "original-publication", "creation")
"""The events whose dates are used, in order of preference. A date without an event has "".
`modification` and `conversion` are left out."""
_IGNORED_GUIDE_TYPES: Final = frozenset({"cover", "toc"})
_WEB_SCHEMES: Final = ("http://", "https://")
_UNKNOWN_AUTHOR: Final = "Unknown"
_UNKNOWN_DATE_PREFIX: Final = "0101-"
"""calibre writes this for an unknown author, and the year 101 for an unknown date."""


@dataclass(frozen=True, slots=True)
class Package:
    """A book as its package document describes it.

    Attributes:
        metadata: The title, authors, language, URL and date.
        documents: The paths of the documents in reading order.
        chapters: The chapter titles of each document, by the path of the document and the id of the
            element at which the chapter begins. The id "" means the beginning of the document.
    """

    metadata: DocumentMetadata
    documents: tuple[str, ...]
    chapters: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class _LinkTarget:
    """The target of a link.

    Attributes:
        path: The path of the document in the archive.
        fragment: The id of the element in the document, or "".
    """

    path: str
    fragment: str


class _ManifestItem(NamedTuple):
    """A file that the package lists.

    Attributes:
        is_nav: Whether it is the table of contents of EPUB 3.
    """

    path: str
    media_type: str | None
    is_nav: bool


class _TocEntry(NamedTuple):
    """An entry of a table of contents: its level, from 1, its link, and its title."""

    level: int
    href: str | None
    title: str


def read_package(archive: Archive) -> Package:
    """Read the package document, which the container names, and the table of contents.

    Covers and tables of contents are left out. Documents that the spine marks as non-linear, such
    as answers to exercises, are not.

    Raises:
        Unreadable: The package document is missing or malformed, or lists too many documents.
    """
    container = parse_xml(archive.read(_CONTAINER))
    package_paths = (root.get("full-path") for root in find_elements(container, "rootfile"))
    path = next(filter(None, package_paths), None)
    if path is None:
        raise Unreadable("is not an EPUB: its container names no package document")
    package = parse_xml(archive.read(path))
    base = dirname(path)
    manifest = {
        item.get("id"): _ManifestItem(
            _resolve(base, item.get("href")).path,
            item.get("media-type"),
            is_nav="nav" in (item.get("properties") or "").split(),
        )
        for item in find_elements(package, "item")
    }
    covers_and_tocs = {
        _resolve(base, reference.get("href")).path
        for reference in find_elements(package, "reference")
        if (reference.get("type") or "").lower() in _IGNORED_GUIDE_TYPES
    }
    nav_paths = {item.path for item in manifest.values() if item.is_nav}
    ncx_paths = [item.path for item in manifest.values() if item.media_type == _NCX_MEDIA_TYPE]
    documents = _list_documents(package, manifest, ignored=covers_and_tocs | nav_paths)
    if len(documents) > _MAX_DOCUMENTS:
        raise Unreadable(f"has more than {_MAX_DOCUMENTS:,} documents")
    return Package(
        _read_metadata(package), documents, _read_chapters(archive, [*nav_paths, *ncx_paths])
    )


def _list_documents(
    package: Element, manifest: Mapping[str | None, _ManifestItem], ignored: Collection[str]
) -> tuple[str, ...]:
    """Return the paths of the documents in the order of the spine, each once."""
    paths: dict[str, None] = {}
    for reference in find_elements(package, "itemref"):
        item = manifest.get(reference.get("idref"))
        if item is None or item.path in ignored:
            continue
        if not (item.media_type or "").startswith(_PICTURES_AND_SOUNDS):
            paths[item.path] = None
    return tuple(paths)


def _read_metadata(package: Element) -> DocumentMetadata:
    sources = _find_texts(package, "source")
    urls = (source for source in sources if source.lower().startswith(_WEB_SCHEMES))
    fields = {
        "title": next(iter(_find_texts(package, "title")), None),
        "author": _read_authors(package),
        "language": next(iter(_find_texts(package, "language")), None),
        "url": next(urls, None),
        "date": _read_date(package),
    }
    metadata, _ = validate(DocumentMetadata, fields, set(fields))
    return metadata


def _find_texts(package: Element, name: str) -> list[str]:
    return [text for element in find_elements(package, name) if (text := _get_text(element))]


def _read_authors(package: Element) -> list[str]:
    """Return the creators who are authors, or else all creators, such as editors."""
    roles_by_creator_id = {  # EPUB 3; in EPUB 2, the role is an attribute of the creator
        (meta.get("refines") or "").removeprefix("#"): _get_text(meta)
        for meta in find_elements(package, "meta")
        if meta.get("property") == "role"
    }
    creators = [
        (name, _get_attribute(creator, "role") or roles_by_creator_id.get(creator.get("id"), ""))
        for creator in find_elements(package, "creator")
        if (name := _get_text(creator)) and name != _UNKNOWN_AUTHOR
    ]
    # A role may be a URI: http://id.loc.gov/vocabulary/relators/aut
    authors = [name for name, role in creators if role.lower().rpartition("/")[2] in _AUTHOR_ROLES]
    return authors or [name for name, _ in creators]


def _read_date(package: Element) -> str | None:
    """Return the best date by the order of `_EVENTS`, or None."""
    dates = [
        (event, text)
        for date in find_elements(package, "date")
        if (event := _get_attribute(date, "event").lower()) in _EVENTS
        and (text := _get_text(date))
        and not text.startswith(_UNKNOWN_DATE_PREFIX)
    ]
    best = min(dates, key=lambda date: _EVENTS.index(date[0]), default=None)
    return best[1] if best else None


def _get_text(element: Element) -> str:
    return "".join(element.itertext()).strip()


def _get_attribute(element: Element, name: str) -> str:
    """Return an attribute, with or without the OPF namespace that EPUB 2 uses; "" if missing."""
    return str(element.get(f"{{{_OPF}}}{name}") or element.get(name) or "")


def _read_chapters(archive: Archive, paths: list[str]) -> dict[str, dict[str, str]]:
    """Return `Package.chapters` from the first table of contents that lists chapters.

    If a part and its first chapter begin at the same element, the chapter's title wins.
    """
    for path in paths:
        try:
            tree = parse_xml(archive.read(path))
        except Unreadable:
            continue
        chapters: dict[str, dict[str, str]] = {}
        levels: dict[_LinkTarget, int] = {}
        for entry in _iterate_toc(tree):
            target = _resolve(dirname(path), entry.href)
            if entry.title and entry.level > levels.get(target, 0):
                levels[target] = entry.level
                chapters.setdefault(target.path, {})[target.fragment] = entry.title
        if chapters:
            return chapters
    return {}


def _iterate_toc(tree: Element) -> Iterator[_TocEntry]:
    """Yield the entries of a table of contents, except those below `_CHAPTER_LEVELS`.

    The table is a navigation document (EPUB 3) or an NCX (EPUB 2).
    """
    for point in find_elements(tree, "navPoint"):
        label = next(find_elements(point, "text"), None)
        content = next((child for child in point if get_local_name(child) == "content"), None)
        level = 1 + _count_ancestors(point, "navPoint")
        if level <= _CHAPTER_LEVELS and label is not None and content is not None:
            yield _TocEntry(level, content.get("src"), to_headline(label.text or ""))
    for nav in find_elements(tree, "nav"):
        # A `nav` without a type counts as the table of contents.
        if "toc" in (nav.get(EPUB_TYPE) or "toc").split():
            for link in find_elements(nav, "a"):
                level = max(1, _count_ancestors(link, "ol"))
                if level <= _CHAPTER_LEVELS:
                    title = to_headline("".join(link.itertext()))
                    yield _TocEntry(level, link.get("href"), title)


def _count_ancestors(element: Element, name: str) -> int:
    return sum(1 for parent in element.iterancestors() if get_local_name(parent) == name.lower())


def _resolve(base: str, href: str | None) -> _LinkTarget:
    """Resolve a link in a document in the folder `base`; `/` is the root of the archive.

    A path that leads out of the archive matches none of its members.
    """
    path, _, fragment = (href or "").partition("#")
    return _LinkTarget(normpath(join(base, unquote(path))).lstrip("/"), unquote(fragment))
