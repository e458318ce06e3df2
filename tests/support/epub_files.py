"""EPUB books for tests, in the layouts of EPUB 3.3 and of EPUB 2."""

import io
import zipfile
from collections.abc import Mapping, Sequence

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0"'
    ' xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/>'
    "</rootfiles></container>"
)
"""The file that leads to the package document."""
METADATA = (
    "<dc:title>A Handbook of Sails</dc:title><dc:creator>Ann Helm</dc:creator>"
    "<dc:creator>Bob Reef</dc:creator><dc:language>en-GB</dc:language>"
    "<dc:date>2019-03-01</dc:date><dc:source>https://example.org/sails</dc:source>"
)
"""The metadata of a book by two authors."""


def make_xhtml(body: str, *, doctype: str = "<!DOCTYPE html>") -> str:
    """Return a document of a book, with a title in its head that no reader shows."""
    return (
        f'<?xml version="1.0" encoding="utf-8"?>{doctype}'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head><title>Not a title</title><style>p {{}}</style></head><body>{body}</body></html>"
    )


def make_nav(*entries: tuple[str, str]) -> str:
    """Return a navigation document (EPUB 3) from the address and title of each chapter."""
    items = "".join(f'<li><a href="{href}">{title}</a></li>' for href, title in entries)
    return make_xhtml(f'<nav epub:type="toc"><ol>{items}</ol></nav>')


def make_ncx(*entries: tuple[str, str]) -> str:
    """Return an NCX, the table of contents of EPUB 2, from each chapter's address and title."""
    points = "".join(
        f'<navPoint id="p{number}"><navLabel><text>{title}</text></navLabel>'
        f'<content src="{href}"/></navPoint>'
        for number, (href, title) in enumerate(entries)
    )
    return (
        '<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1">'
        f"<navMap>{points}</navMap></ncx>"
    )


def make_epub(  # noqa: PLR0913 - the parts of a book
    documents: Mapping[str, str],
    *,
    nav: str = "",
    ncx: str = "",
    metadata: str = METADATA,
    spine: Sequence[str] | None = None,
    others: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """Return a packed book.

    Args:
        documents: The bodies of its documents by name, such as `one.xhtml`.
        nav: The navigation document, if any.
        ncx: The NCX, if any.
        metadata: The metadata of the package.
        spine: The names of documents in reading order; by default, the order of `documents`.
        others: Further members by path. They replace members with the same path.
    """
    items = "".join(
        f'<item id="{name}" href="text/{name}" media-type="application/xhtml+xml"/>'
        for name in documents
    )
    if nav:
        items += (
            '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        )
    if ncx:
        items += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    item_references = "".join(f'<itemref idref="{name}"/>' for name in spine or documents)
    package = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"'
        f' xmlns:opf="http://www.idpf.org/2007/opf">{metadata}</metadata>'
        f'<manifest>{items}</manifest><spine toc="ncx">{item_references}</spine></package>'
    )
    members: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/content.opf": package,
        **{f"OEBPS/text/{name}": make_xhtml(body) for name, body in documents.items()},
    }
    members |= {"OEBPS/nav.xhtml": nav} if nav else {}
    members |= {"OEBPS/toc.ncx": ncx} if ncx else {}
    return make_zip({**members, **(others or {})})


def make_zip(members: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP archive of these members, by path."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
