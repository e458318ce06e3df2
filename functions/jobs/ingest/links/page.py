"""Fetches the page of a link, and reads it as a file of its type."""

from __future__ import annotations

import asyncio
import gzip
import re
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.html.page import NoArticle
from functions.jobs.ingest.readers.reading import find_format_by_name
from functions.jobs.ingest.readers.source_file import MEGABYTE, SourceFile, Unreadable
from shared.core.http import parse_media_type
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import FetchedDocument, FetchRules
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.jobs.ingest.readers.formats import Format
    from shared.core.safe_fetch import SafeFetch
    from shared.links.model import Link

_EXTENSIONS: Final = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "application/epub+zip": ".epub",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
}
"""The extension of the files in which documents of each media type are saved."""
_TEXT: Final = "text/plain"
_BROWSER_HTML: Final = "text/html; charset=utf-8"
"""The type of pages from browsers, whatever encoding they declare."""
_UNKNOWN: Final = ("", "application/octet-stream", "binary/octet-stream")
"""What servers send if they do not know the media type. The URL's extension is used instead."""
FETCH_RULES: Final = FetchRules(
    max_bytes=10 * MEGABYTE,
    seconds=20.0,
    media_types=re.compile("|".join(map(re.escape, (*_EXTENSIONS, _TEXT, *_UNKNOWN)))),
    headers={
        "accept": "text/html, application/xhtml+xml, application/pdf, text/*;q=0.9, */*;q=0.1",
        "user-agent": "Carrel (fetches single pages that a person asked for)",
    },
    max_redirects=5,
    compressed=True,
)
"""Pages of any public site may be fetched. `robots.txt` is not read, because it addresses crawlers,
while these pages are fetched at a person's request."""
_REASONS: Final = {
    "url": "is not the address of a public web page: it begins with http:// or https://, and has a"
    " host name, no other port and no password",
    "host_unknown": "has a host that does not exist: check the address",
    "address_not_public": "is inside a private network: save the page as a file and ingest that",
    "content_type": "is in a format that is not read: save it in another format and ingest that",
    "content_encoding": "was sent in an encoding that cannot be read",
    "too_large": f"is larger than {FETCH_RULES.max_bytes // MEGABYTE} MB: download it and ingest"
    " the file",
    "too_slow": f"took longer than {FETCH_RULES.seconds:.0f} seconds to fetch",
    "unreachable": "cannot be reached",
    "redirects": f"redirects more than {FETCH_RULES.max_redirects} times",
    "redirect_to_http": "redirects from https to http, which is not followed",
}
"""The message for a person, by the reason why a page is rejected. It follows the page's URL."""
_NO_ARTICLE_IN_BROWSER: Final = (
    "has no recognizable article, as a menu or a form has none: select its text in the browser, and"
    " save that"
)
_TEMPORARY_REASONS: Final = {"host_unknown", "too_slow", "unreachable"}
"""The reasons that may pass. `host_unknown` is one because an offline machine resolves no host."""
_TEMPORARY_STATUSES: Final = {408, 425, 429}
"""The statuses below 500 after which a page is tried again: timeout, too early, too many."""
_CHARSET: Final = re.compile(r";\s*charset=\"?([\w.:-]+)", re.IGNORECASE | re.ASCII)
_ENCODINGS: Final = re.compile(
    r"(iso-?8859-|windows-125|cp125|koi8-|shift_jis|euc-|gb|big5|utf-16)[\w-]*", re.IGNORECASE
)
"""The encodings to decode here. Any other encoding is left to the reader, which detects it."""


class PageUnavailable(Unreadable):
    """A page cannot be fetched now, but may become available."""


async def fetch_source(link: Link, fetch: SafeFetch) -> Source:
    """Fetch the page of a link, or read the one that a browser sent.

    The title and the tags that the user gave with the link are stored like edits of the page's own.
    The source's URL is the canonical URL that the page declares, if it is on the same host.

    Raises:
        PageUnavailable: The page cannot be fetched now; the message says why.
        Unreadable: The page cannot be fetched or read; the message says why.
    """
    url = PublicUrl.of_link(link.url)
    if link.page:
        html = gzip.decompress(link.page)  # `save_page` limits its size
        document = FetchedDocument(html, url, _BROWSER_HTML, "")
        try:
            return await asyncio.to_thread(_read, link, document)
        except NoArticle as error:
            raise Unreadable(_NO_ARTICLE_IN_BROWSER) from error
    try:
        document = await fetch.get(url)
    except DocumentRejected as error:
        kind = PageUnavailable if _is_temporary(error) else Unreadable
        raise kind(describe_rejection(error)) from error
    return await asyncio.to_thread(_read, link, document)


def describe_rejection(error: DocumentRejected) -> str:
    """Return why a page is rejected, as a predicate to put after its URL."""
    if error.status:
        return f"cannot be fetched: its server answers {error.status}"
    return _REASONS[error.reason]


def _is_temporary(error: DocumentRejected) -> bool:
    if error.status:
        return (
            error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status in _TEMPORARY_STATUSES
        )
    return error.reason in _TEMPORARY_REASONS


def _read(link: Link, document: FetchedDocument) -> Source:
    """Read a page as a file of its type.

    Raises:
        Unreadable: The type is not read, or the page does not contain exactly one text.
    """
    # One name for all pages, because some formats are recognized by a word in a file's name.
    extension = _choose_extension(document)
    file_format = _get_page_format(extension)
    if file_format is None:
        raise Unreadable(_REASONS["content_type"])
    name = PurePosixPath(unquote(document.url.target.partition("?")[0])).stem
    with TemporaryDirectory(prefix="carrel-link-") as folder:
        path = Path(folder) / f"page{extension}"
        path.write_bytes(_to_utf8(document))
        file = SourceFile(
            path,
            link.url,
            "link",
            f"{name or document.url.host}{extension}",
            assigned_source_id=link.source_id,
            modified_at=link.saved_at or link.requested_at,
            url=document.url.text,
        )
        contents = [record.read() for record in file_format.read(file)]
    sources = [content for content in contents if isinstance(content, Source)]
    if len(sources) != 1:
        raise Unreadable("has no text")
    return replace(
        sources[0],
        source_id=link.source_id,
        origin="link",
        category="articles",
        folder=link.folder,
        source_url=_choose_url(sources[0].source_url, document.url),
        overrides=_build_overrides(link, sources[0]),
    )


def _choose_extension(document: FetchedDocument) -> str:
    """Choose a file extension for a document, by its media type or else by its URL."""
    kind = parse_media_type(document.content_type)
    if kind in _EXTENSIONS:
        return _EXTENSIONS[kind]
    extension = PurePosixPath(document.url.target.partition("?")[0]).suffix.lower()
    return extension if kind in _UNKNOWN or _get_page_format(extension) else ".txt"


def _get_page_format(extension: str) -> Format | None:
    """Return the format for a page; None for exports, which could replace other sources."""
    file_format = find_format_by_name(PurePosixPath(f"page{extension}"))
    return file_format if file_format and file_format.identity is Identity.FILE else None


def _to_utf8(document: FetchedDocument) -> bytes:
    """Convert a text to UTF-8 if the server names its encoding, which would be lost in a file.

    The result begins with a byte order mark, which outranks the encoding that a page declares.
    """
    charset = _CHARSET.search(document.content_type)
    is_text = parse_media_type(document.content_type).startswith(("text/", "application/xhtml"))
    if not (is_text and charset and _ENCODINGS.fullmatch(charset[1])):
        return document.body
    # Browsers read pages labelled Latin-1 as Windows-1252 (WHATWG Encoding, 4.2).
    encoding = "windows-1252" if charset[1].lower() == "iso-8859-1" else charset[1]
    try:
        return document.body.decode(encoding).encode("utf-8-sig")
    except (LookupError, UnicodeError):
        return document.body


def _choose_url(canonical: str | None, final: PublicUrl) -> str:
    """Return the canonical URL, if it is on the host that sent the page, or else the final URL."""
    try:
        url = PublicUrl.of_link(canonical or final.text)
    except DocumentRejected:
        return final.text
    return url.text if url.host == final.host else final.text


def _build_overrides(link: Link, source: Source) -> Mapping[str, Any]:
    """Return the fields that the user set: the title, and the user's tags before the page's own."""
    overrides: dict[str, Any] = {"title": link.title} if link.title else {}
    if link.tags:
        overrides["tags"] = tuple(dict.fromkeys([*link.tags, *source.tags]))
    return overrides
