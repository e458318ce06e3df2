"""The package of an EPUB: its metadata, its documents in reading order, and its chapters."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import dirname, normpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from functions.jobs.ingest.readers.blocks import local_name
from functions.jobs.ingest.readers.decoding import Unreadable, validated
from functions.jobs.ingest.readers.fields import DocumentMetadata, headline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.archives import Archive
    from functions.jobs.ingest.readers.blocks import Element

_MAX_DOCUMENTS: Final = 5_000
"""Books with more documents are refused."""
_CHAPTER_LEVELS: Final = 2
"""The upper levels of the table of contents, which begin sections: parts and chapters, or chapters
and their subsections."""
_CONTAINER: Final = "META-INF/container.xml"
_DOCUMENT_MEDIA_TYPES: Final = frozenset(
    {"application/xhtml+xml", "text/html", "application/x-dtbook+xml"}
)
_NCX_MEDIA_TYPE: Final = "application/x-dtbncx+xml"
EPUB_TYPE: Final = "{http://www.idpf.org/2007/ops}type"
_OPF: Final = "http://www.idpf.org/2007/opf"
_AUTHOR_ROLES: Final = frozenset({"aut", ""})
"""The roles of authors, as MARC relators. `trl` is a translator, and `ill` an illustrator."""
_EVENTS: Final = ("publication", "", "original-publication", "creation")
"""The events whose date is used, the best first. `modification` and `conversion` are left out."""
_IGNORED_GUIDE_TYPES: Final = frozenset({"cover", "toc"})
_WEB_SCHEMES: Final = ("http://", "https://")
_NO_DATE: Final = "0101-"
"""calibre writes the year 101 for a date that it does not know."""


@dataclass(frozen=True, slots=True)
class Package:
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


def read_package(archive: Archive) -> Package:
    """Read the package document, which the container names, and the table of contents.

    Documents that are not part of the running text are left out: covers, tables of contents, and
    those that the spine marks as not linear.
    """
    container = parse_xml(archive.read(_CONTAINER))
    roots = (root.get("full-path") for root in find_elements(container, "rootfile"))
    path = next(filter(None, roots), None)
    if path is None:
        raise Unreadable("is not an EPUB: its container names no package document")
    package = parse_xml(archive.read(path))
    base = dirname(path)
    items = {item.get("id"): item for item in find_elements(package, "item")}
    paths = {key: _resolve(base, item.get("href"))[0] for key, item in items.items()}
    ignored = {
        _resolve(base, reference.get("href"))[0]
        for reference in find_elements(package, "reference")
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
            for reference in find_elements(package, "itemref")
            if (key := reference.get("idref")) in items
            and reference.get("linear") != "no"
            and items[key].get("media-type") in _DOCUMENT_MEDIA_TYPES
            and paths[key] not in ignored | nav_paths
        )
    )
    if len(documents) > _MAX_DOCUMENTS:
        raise Unreadable(f"has more than {_MAX_DOCUMENTS:,} documents")
    return Package(
        _read_metadata(package), documents, _read_chapters(archive, [*nav_paths, *ncx_paths])
    )


def _read_metadata(package: Element) -> DocumentMetadata:
    urls = (text for text in _texts(package, "source") if text.lower().startswith(_WEB_SCHEMES))
    fields = {
        "title": next(iter(_texts(package, "title")), None),
        "author": _read_authors(package),
        "language": next(iter(_texts(package, "language")), None),
        "url": next(urls, None),
        "date": _read_date(package),
    }
    metadata, _ = validated(DocumentMetadata, fields, set(fields))
    return metadata


def _texts(package: Element, name: str) -> list[str]:
    """Return the texts of all elements with a name. Empty ones are left out."""
    return [text for element in find_elements(package, name) if (text := _text(element))]


def _read_authors(package: Element) -> list[str]:
    """Return the creators who are authors; if there are none, all creators, such as editors."""
    refinements = {
        (meta.get("refines") or "").removeprefix("#"): _text(meta)
        for meta in find_elements(package, "meta")
        if meta.get("property") == "role"
    }
    creators = [
        (name, _attribute(creator, "role") or refinements.get(creator.get("id"), ""))
        for creator in find_elements(package, "creator")
        if (name := _text(creator))
    ]
    # A role may be the address of its relator: http://id.loc.gov/vocabulary/relators/aut
    authors = [name for name, role in creators if role.lower().rpartition("/")[2] in _AUTHOR_ROLES]
    return authors or [name for name, _ in creators]


def _read_date(package: Element) -> str | None:
    """Return the date of publication, or else a date whose event is not given."""
    dates = [
        (_attribute(date, "event").lower(), text)
        for date in find_elements(package, "date")
        if (text := _text(date)) and not text.startswith(_NO_DATE)
    ]
    ordered = sorted(
        (_EVENTS.index(event), position, text)
        for position, (event, text) in enumerate(dates)
        if event in _EVENTS
    )
    return ordered[0][-1] if ordered else None


def _text(element: Element) -> str:
    return "".join(element.itertext()).strip()


def _attribute(element: Element, name: str) -> str:
    """Return an attribute that EPUB 2 has in a namespace of its own; "" if it is missing."""
    return str(element.get(f"{{{_OPF}}}{name}") or element.get(name) or "")


def _read_chapters(archive: Archive, paths: list[str]) -> dict[str, dict[str, str]]:
    """Return the chapters of the first table of contents that is not empty, if there is one.

    Where a part begins with its first chapter, the chapter is used.
    """
    for path in paths:
        try:
            tree = parse_xml(archive.read(path))
        except Unreadable:
            continue
        chapters: dict[str, dict[str, str]] = {}
        levels: dict[tuple[str, str], int] = {}
        for level, href, title in _iterate_contents(tree):
            target = _resolve(dirname(path), href)
            if title and level > levels.get(target, 0):
                levels[target] = level
                chapters.setdefault(target[0], {})[target[1]] = title
        if chapters:
            return chapters
    return {}


def _iterate_contents(tree: Element) -> Iterator[tuple[int, str | None, str]]:
    """Yield the levels, link targets and titles of a table of contents.

    It is a navigation document (EPUB 3) or an NCX (EPUB 2). Levels are counted from 1.
    """
    for point in find_elements(tree, "navPoint"):
        label = next(find_elements(point, "text"), None)
        content = next((child for child in point if local_name(child) == "content"), None)
        level = 1 + _count_ancestors(point, "navPoint")
        if level <= _CHAPTER_LEVELS and label is not None and content is not None:
            yield level, content.get("src"), headline(label.text or "")
    for nav in find_elements(tree, "nav"):
        if "toc" in (nav.get(EPUB_TYPE) or "toc").split():
            for link in find_elements(nav, "a"):
                level = max(1, _count_ancestors(link, "ol"))
                if level <= _CHAPTER_LEVELS:
                    yield level, link.get("href"), headline("".join(link.itertext()))


def _count_ancestors(element: Element, name: str) -> int:
    return sum(1 for parent in element.iterancestors() if local_name(parent) == name.lower())


def parse_xml(data: bytes) -> Any:
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


def find_elements(tree: Element, name: str) -> Iterator[Element]:
    """Find the elements with a name, in any namespace."""
    return (element for element in tree.iter() if local_name(element) == name.lower())


def _resolve(base: str, href: str | None) -> tuple[str, str]:
    """Resolve a link in a document of the folder `base`: its path in the archive, and its fragment.

    A path that leads out of the archive matches none of its members.
    """
    path, _, fragment = (href or "").partition("#")
    return normpath(f"{base}/{unquote(path)}" if base else unquote(path)), unquote(fragment)
