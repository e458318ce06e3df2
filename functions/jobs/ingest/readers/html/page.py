"""Reads the article in a saved or fetched HTML page, without the menus and ads around it.

trafilatura finds the article. It is actively maintained, has been Apache-2.0 since version 1.8, and
sends no requests. Pages are parsed as HTML, which does not allow entity declarations.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers.fields import DocumentMetadata, clean, to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.html.blocks import read_blocks
from functions.jobs.ingest.readers.html.boilerplate import remove_boilerplate
from functions.jobs.ingest.readers.html.decoding import decode_html
from functions.jobs.ingest.readers.html.embedded import remove_data_urls, remove_unread_elements
from functions.jobs.ingest.readers.html.formulas import replace_formulas
from functions.jobs.ingest.readers.html.inline_markup import replace_inline_markup
from functions.jobs.ingest.readers.html.title import choose_title, find_titles
from functions.jobs.ingest.readers.locators import join_texts
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
)
from functions.jobs.ingest.readers.validation import validate
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from functions.jobs.ingest.readers.html.title import PageTitles

MAX_BYTES: Final = 16 * MEGABYTE
"""The maximum size of a page without the images, fonts, scripts and styles that it contains."""
MAX_FILE_BYTES: Final = 100 * MEGABYTE
"""The maximum size of a page that was saved as one file. In the cloud, it is in memory."""
MAX_ELEMENTS: Final = 50_000
"""The maximum number of elements: 300,000 took trafilatura 73 seconds and 690 MB."""
_MIN_PROSE: Final = 140
"""The minimum number of characters outside links in an article. Menus consist of links, and a page
that needs JavaScript contains little more than a sentence about that."""
_NO_TEXT: Final = frozenset(
    [
        *("a", "aside", "button", "footer", "form", "head", "header", "nav", "noscript"),
        *("script", "select", "style", "template"),
    ]
)
"""Elements whose words nobody expects in an article."""
_MIN_OMITTED: Final = 20
"""Fewer words outside the article are not worth a warning."""
_OMITTED_FRACTION: Final = 0.1
"""A smaller part of a page's words outside the article is not worth a warning."""
_NO_ARTICLE: Final = (
    "has no recognizable article: it may be a menu, a form, or a page that needs JavaScript."
    " Save the page from a browser, or its text as Markdown"
)

_OTHER_KINDS: Final = {b"%PDF-": "a PDF", b"PK\x03\x04": "a ZIP archive"}
"""The first bytes of other files that are often saved with the extension of a page."""
_PLACEHOLDERS: Final = frozenset(
    [
        "",
        "admin",
        "administrator",
        "author",
        "follow author",
        "no author",
        "unknown",
        "username",
        "作者",
    ]
)
"""Texts that are found in place of an author's name."""
_SAVED_FROM_BYTES: Final = 4096
"""Programs that save a page write its URL within this many leading bytes."""
WEB_SCHEMES: Final = ("http://", "https://")
_LINK: Final = "ref"
"""A TEI tag, as trafilatura uses it."""
HEADING: Final = re.compile("head|h[1-6]")
"""The heading tags of TEI and HTML."""
_SAVED_FROM: Final = re.compile(
    # What Chrome and Edge write, and what SingleFile writes.
    rb"<!--\s*(?:saved from url=\(\d+\)|Page saved with SingleFile\s+url:\s*)(https?://[^\s>]{1,2000})"
)
"""The comment in which a browser stores the address of a saved page."""


class NoArticle(Unreadable):
    """A page has no article."""

    def __init__(self) -> None:
        super().__init__(_NO_ARTICLE)


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a page."""
    yield Record(file.name, partial(_make_source, file))


def make_article_source(
    html: bytes,
    *,
    source_id: str,
    url: str | None = None,
    title: str | None = None,
    saved_at: datetime | None = None,
) -> Source:
    """Make a source from a page.

    Args:
        url: The URL from which the page was fetched. A canonical URL in it takes precedence.
        title: The title if the page has none.
        saved_at: When it was saved.

    Raises:
        Unreadable: The page has no article, or is too large.
    """
    url = url or _find_saved_url(html)
    html = remove_data_urls(html)
    if len(html) > MAX_BYTES:
        html = remove_unread_elements(html)
    if reason := describe_excess(len(html), MAX_BYTES):
        raise Unreadable(reason)
    for beginning, kind in _OTHER_KINDS.items():
        if html.startswith(beginning):
            raise Unreadable(f"is {kind}, not a page: give the file the right extension")
    page, warnings = decode_html(html)
    tree = _parse(page)
    language = _find_language(tree)
    titles = find_titles(tree)
    page_words = _count_words(tree)
    document = _extract(tree, url)
    metadata = _make_metadata(document, titles, language, url)
    page_title = to_headline(metadata.title or title or "Untitled")
    text, locators = join_blocks(document.body, page_title)
    if not text:
        raise NoArticle
    section = Section(text, locators=locators, published_at=metadata.date, saved_at=saved_at)
    return Source(
        source_id=source_id,
        title=page_title,
        **{**metadata.source_fields, "category": "articles"},
        sections=(section,),
        warnings=(*warnings, *_describe_omission(page_words, len(text.split()))),
    )


def _make_source(file: SourceFile) -> Source:
    return make_article_source(
        read_page(file),
        source_id=file.source_id,
        title=PurePosixPath(file.relative_path).stem,
        url=file.url,
        saved_at=file.modified_at,
    )


def read_page(file: SourceFile) -> bytes:
    """Read a file.

    Raises:
        Unreadable: The file is too large.
    """
    if reason := describe_excess(file.path.stat().st_size, MAX_FILE_BYTES):
        raise Unreadable(reason)
    return file.path.read_bytes()


def _parse(text: str) -> Any:
    """Parse a page, and prepare it for the extraction of the article.

    Raises:
        Unreadable: The page is empty, is not HTML, or has too many elements.
    """
    from lxml import etree
    from lxml import html as lxml_html

    if not text.strip():
        raise Unreadable("is empty")
    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError) as error:
        raise NoArticle from error
    etree.strip_elements(tree, "svg", with_tail=False)
    if sum(1 for _ in tree.iter()) > MAX_ELEMENTS:
        raise Unreadable(
            f"has more than {MAX_ELEMENTS:,} elements, too many for an article: split the page"
        )
    replace_formulas(tree)
    replace_inline_markup(tree)
    remove_boilerplate(tree)
    return tree


def _extract(tree: Any, url: str | None) -> Any:
    """Extract the article.

    trafilatura's default mode keeps whole articles, with tables and formatting, and falls back to
    other extractors if the result is short. Comments are left out. The date is the publication date
    that the page declares; it is not guessed from the text.

    Raises:
        Unreadable: The page has no article, or hardly anything but links.
    """
    from trafilatura.core import bare_extraction

    try:
        document: Any = bare_extraction(
            tree,
            url=url,
            include_comments=False,
            include_formatting=True,
            include_links=True,
            with_metadata=True,
            date_extraction_params={"extensive_search": False, "original_date": True},
        )
    except (ValueError, RecursionError) as error:
        raise NoArticle from error
    if document is None or _count_prose(document.body) < _MIN_PROSE:
        raise NoArticle
    return document


def _count_prose(body: Any) -> int:
    if body is None:
        return 0
    blocks = read_blocks(body, lambda tag, _: tag == _LINK)
    return sum(len(block.text) for block in blocks)


def _count_words(tree: Any) -> int:
    blocks = read_blocks(tree, lambda tag, _: tag in _NO_TEXT)
    return sum(len(block.text.split()) for block in blocks)


def _describe_omission(page_words: int, words: int) -> Iterator[str]:
    """Yield a warning if many words of a page are not in its article."""
    omitted = page_words - words
    if omitted >= _MIN_OMITTED and omitted >= _OMITTED_FRACTION * page_words:
        yield (
            f"{omitted:,} of its {page_words:,} words are left out, because they are outside the"
            " article: if they belong to it, save the page's text as Markdown"
        )


def _make_metadata(
    document: Any, titles: PageTitles, language: str | None, url: str | None
) -> DocumentMetadata:
    canonical = document.url or ""
    title = to_one_line(document.title or "")
    site_name = document.sitename or ""
    fields = {
        "title": choose_title(title, titles, site_name=site_name, url=canonical or url or ""),
        "author": _join_authors(document.author or ""),
        "language": language,
        "date": document.date,
        "url": canonical if canonical.lower().startswith(WEB_SCHEMES) else url,
    }
    metadata, _ = validate(DocumentMetadata, fields, set(fields))
    return metadata


def _join_authors(text: str) -> str | None:
    """Join authors as trafilatura returns them, without placeholders and repetitions."""
    names = {name.casefold(): name for name in reversed(text.split("; "))}
    return ", ".join(reversed([names[key] for key in names if key not in _PLACEHOLDERS])) or None


def _find_language(tree: Any) -> str | None:
    root = tree.getroottree().getroot()
    language: str | None = root.get("lang")
    return language or root.get("{http://www.w3.org/XML/1998/namespace}lang")


def _find_saved_url(html: bytes) -> str | None:
    """Return the URL that was recorded in a page when it was saved."""
    match = _SAVED_FROM.search(html[:_SAVED_FROM_BYTES])
    return match[1].decode("utf-8", "replace") if match else None


def join_blocks(body: Any, title: str) -> tuple[str, tuple[tuple[int, Locator], ...]]:
    """Return the text and its chapters. If the first heading repeats the title, it is left out."""
    passages: list[tuple[str, Locator | None]] = []
    for block in read_blocks(body):
        # The first line of code keeps its indentation, except at the top of the text.
        text = clean(block.text).rstrip().lstrip("\n" if passages else None)
        is_heading = bool(HEADING.fullmatch(block.tag))
        if not text or (is_heading and not passages and to_headline(text) == title):
            continue
        passages.append((text, Locator(chapter=to_headline(text)) if is_heading else None))
    return join_texts(passages)


FORMAT: Final = Format(
    name="HTML page",
    extensions=(".html", ".htm", ".xhtml"),
    read=read_records,
    max_bytes=MAX_FILE_BYTES,
    fields={
        "the article": "the passages, without menus, comments, images, edit links, note marks and"
        " line numbers",
        "`10<sup>6</sup>`": "`10^6`",
        "formulas (MathML, KaTeX, MathJax)": "TeX, such as `$x^{2}$`",
        "headings": "the chapter of a passage",
        "title, og:title": "the title without the site's name; if missing, the file's name",
        "author": "the author",
        "lang": "the language",
        "canonical URL": "the URL of the original; if missing, the URL recorded when the page was"
        " saved",
        "publication date": "the date of a new text; if missing, the file's date",
    },
    example='<html lang="en">\n<title>Reefing early</title>\n<link rel="canonical"'
    ' href="https://example.com/reefing">\n<article><h1>Reefing early</h1>'
    "<p>A reef taken early costs a minute ...</p></article>\n</html>\n",
)
