"""HTML pages: the article of a saved or fetched page, without what is around it.

trafilatura finds the article. It is Apache-2.0 since its version 1.8, maintained, and no page makes
it send a request. Pages are parsed as HTML, in which nobody can declare entities.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers.blocks import read_blocks
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
from functions.jobs.ingest.readers.locators import join_texts
from functions.jobs.ingest.readers.text_files import source_id_of
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

MAX_BYTES: Final = 16 * MEGABYTE
"""Larger files are refused. Programs that save a page in one file put its images in it."""
MAX_ELEMENTS: Final = 50_000
"""Pages with more elements are refused: 300,000 took trafilatura 73 seconds and 690 MB."""
_MIN_PROSE: Final = 140
"""A page with fewer characters outside links has no article. Menus are links, and a page that needs
JavaScript says so in a sentence."""
_NO_ARTICLE: Final = (
    "has no article: it is a menu, a form, or a page that needs JavaScript;"
    " save the page from a browser, or its text as Markdown"
)

_META_CHARSET: Final = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]{0,200}?\b(?:charset|encoding)\s*=\s*["']?([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_SNIFFED_BYTES: Final = 1024
"""A page declares its encoding in these first bytes (WHATWG HTML, 13.2.3.2)."""
_BYTE_ORDER_MARKS: Final = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
_WEB: Final = ("http://", "https://")
_SAVED_FROM: Final = re.compile(
    # What Chrome and Edge write, and what SingleFile writes.
    rb"<!--\s*(?:saved from url=\(\d+\)|Page saved with SingleFile\s+url:\s*)(https?://[^\s>]{1,2000})"
)


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a file."""
    yield file.name, partial(_source, file)


def article_source(
    html: bytes,
    *,
    source_id: str,
    url: str | None = None,
    title: str | None = None,
    written_at: datetime | None = None,
) -> Source:
    """Make a source of a page, from a file or fetched from an address.

    Args:
        html: The page.
        source_id: The id of the source.
        url: Its address. The canonical address that the page names comes first.
        title: The title if the page has none.
        written_at: The date if the page has none.

    Raises:
        Unreadable: The page has no article, or is too large.
    """
    if reason := excess(len(html), MAX_BYTES):
        raise Unreadable(reason)
    address = url or _saved_from(html)
    tree = _parse(html)
    language = _language(tree)
    document = _extract(tree, address)
    about = _metadata(document, language, address)
    page_title = headline(about.title or title or "Untitled")
    text, locators = _text(document.body, page_title)
    section = Section(text, locators=locators, written_at=about.highlighted_at or written_at)
    return Source(
        source_id=source_id,
        title=page_title,
        **{**about.source_fields, "category": "articles"},
        sections=(section,),
    )


def _source(file: SourceFile) -> Source:
    return article_source(
        _read(file),
        source_id=file.source_id or source_id_of(file.collection, file.key),
        title=PurePosixPath(file.key).stem,
        url=file.url,
        written_at=file.modified_at,
    )


def _read(file: SourceFile) -> bytes:
    if reason := excess(file.path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    return file.path.read_bytes()


def _decode(html: bytes) -> str:
    """Decode a page by its byte order mark, its declaration, UTF-8 or Windows-1252."""
    marks = (name for mark, name in _BYTE_ORDER_MARKS.items() if html.startswith(mark))
    declared = _META_CHARSET.search(html[:_SNIFFED_BYTES])
    # Who writes that a page is Latin-1 means Windows-1252 (WHATWG Encoding, 4.2).
    names = (next(marks, None), declared and declared[1].decode("ascii"), "utf-8")
    for name in filter(None, names):
        latin = name.lower() in {"iso-8859-1", "latin-1", "latin1", "us-ascii", "ascii"}
        try:
            return html.decode("windows-1252" if latin else name).removeprefix("\ufeff")
        except (LookupError, UnicodeError):
            continue
    return html.decode("windows-1252", "replace")


def _parse(html: bytes) -> Any:
    from lxml import etree
    from lxml import html as lxml_html

    text = _decode(html).replace("\0", "")
    if not text.strip():
        raise Unreadable("is empty")
    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError) as error:
        raise Unreadable(_NO_ARTICLE) from error
    if sum(1 for _ in tree.iter()) > MAX_ELEMENTS:
        raise Unreadable(f"has more than {MAX_ELEMENTS:,} elements, as no article has: split it")
    return tree


def _extract(tree: Any, address: str | None) -> Any:
    """Find the article.

    The balanced mode keeps whole articles, with tables and formatting, and retries by itself what
    came out short. Comments are left out. The date is that of publication; it is not guessed from
    dates in the text.
    """
    from trafilatura.core import bare_extraction

    try:
        document: Any = bare_extraction(
            tree,
            url=address,
            include_comments=False,
            include_formatting=True,
            include_links=True,
            with_metadata=True,
            date_extraction_params={"extensive_search": False, "original_date": True},
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable(_NO_ARTICLE) from error
    if document is None or _prose(document.body) < _MIN_PROSE:
        raise Unreadable(_NO_ARTICLE)
    return document


def _prose(body: Any) -> int:
    """Return the number of characters outside links."""
    if body is None:
        return 0
    blocks = read_blocks(body, lambda tag, _: tag == "ref")
    return sum(len(block.text) for block in blocks)


def _metadata(document: Any, language: str | None, address: str | None) -> DocumentMetadata:
    canonical = document.url or ""
    fields = {
        "title": document.title,
        "author": document.author and document.author.replace("; ", ", "),
        "language": language,
        "date": document.date,
        "url": canonical if canonical.lower().startswith(_WEB) else address,
    }
    about, _ = validated(DocumentMetadata, fields, set(fields))
    return about


def _language(tree: Any) -> str | None:
    root = tree.getroottree().getroot()
    language: str | None = root.get("lang")
    return language or root.get("{http://www.w3.org/XML/1998/namespace}lang")


def _saved_from(html: bytes) -> str | None:
    """Return the address that the program that saved a page wrote into it."""
    match = _SAVED_FROM.search(html[: 4 * _SNIFFED_BYTES])
    return match[1].decode("utf-8", "replace") if match else None


def _text(body: Any, title: str) -> tuple[str, tuple[tuple[int, Locator], ...]]:
    """Return the text, with its headings as chapters; the title is not repeated in it."""
    passages: list[tuple[str, Locator | None]] = []
    for block in read_blocks(body):
        text = clean(block.text).strip()
        is_heading = block.tag == "head"
        if not text or (is_heading and not passages and headline(text) == title):
            continue
        passages.append((text, Locator(chapter=headline(text)) if is_heading else None))
    return join_texts(passages)


FORMAT: Final = Format(
    name="HTML page",
    endings=(".html", ".htm", ".xhtml"),
    read=records,
    max_bytes=MAX_BYTES,
    fields={
        "the article": "the passages, without menus, comments and pictures",
        "headings": "the chapter of a passage",
        "title, og:title": "the title; else the file's name",
        "author": "the author",
        "lang": "the language",
        "canonical address": "the address of the original; else the one that the browser noted when"
        " it saved the page",
        "date of publication": "the date, when the text is first stored; else the file's own",
    },
    example='<html lang="en">\n<title>Reefing early</title>\n<link rel="canonical"'
    ' href="https://example.com/reefing">\n<article><h1>Reefing early</h1>'
    "<p>A reef taken early costs a minute ...</p></article>\n</html>\n",
)
