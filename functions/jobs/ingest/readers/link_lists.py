"""Reads lists of links: bookmarks of browsers, and the exports of programs that save pages.

A note on a link, or a text selected on its page, becomes a passage at once.

The programs name the same few fields differently, so one model reads all of them.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from datetime import UTC
from functools import partial
from html import unescape
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AliasChoices, BeforeValidator, Field

from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import (
    Block,
    ExternalModel,
    Line,
    Tags,
    Timestamp,
    Title,
    to_headline,
)
from functions.jobs.ingest.readers.formats import BEGINNING_BYTES, Format, Identity
from functions.jobs.ingest.readers.highlights import make_page_source, make_section
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    LinkList,
    Record,
    SourceFile,
    Unreadable,
)
from functions.jobs.ingest.readers.tables import list_columns, read_rows, split_rows
from functions.jobs.ingest.readers.validation import parse_json, validate
from shared.core.dates import localize
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.links.model import Link, LinkState, derive_link_source_id
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from shared.knowledge.source import Source

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file. It is large, because browsers embed an icon in each bookmark."""
_BROWSER: Final = "a browser"
_Signatures = tuple[tuple[str, tuple[str, ...]], ...]
"""Programs, each with texts that the beginning of its files contains, in lower case."""
_CSV_SIGNATURES: Final[_Signatures] = (
    ("Readwise Reader", ("title", "url", "document tags")),
    ("Pocket", ("title", "url", "time_added")),
    ("Instapaper", ("url", "title", "selection", "folder")),
    ("Matter", ("title", "url", "in queue", "favorited")),
)
"""The columns of tables."""
_JSON_SIGNATURES: Final[_Signatures] = (
    (_BROWSER, ('"roots"', '"bookmark_bar"')),
    (_BROWSER, ('"text/x-moz-place-container"',)),
    ("Omnivore", ('"slug"', '"readingprogress"', '"savedat"')),
    ("wallabag", ('"is_archived"', '"reading_time"', '"url"')),
    ("wallabag", ('"is_archived"', '"is_starred"', '"url"')),  # an article may precede the rest
    ("Pinboard", ('"href"', '"extended"', '"toread"')),
    ("Linkwarden", ('"collections"', '"links"', '"url"')),
    ("Karakeep", ('"bookmarks"', '"createdat"', '"tags"', '"content"', '"note"')),
)
"""The keys and values of JSON."""
_HTML_SIGNATURES: Final[_Signatures] = (
    ("Pocket", ("<title>pocket export",)),
    ("Instapaper", ("<title>instapaper: export",)),
    (_BROWSER, ("<!doctype netscape-bookmark-file-1",)),
)
_ADDRESSES: Final = ("url", "uri", "href")
_TITLES: Final = ("title", "name", "description")
_TAGS: Final = ("tags", "document tags", "labels")
_FOLDERS: Final = ("folder", "location", "status")
_DATES: Final = (
    *("add_date", "time_added", "timestamp", "saved date", "created", "time"),
    *("date_added", "dateAdded", "savedAt", "createdAt", "created_at"),
)
_TEXTS: Final = ("selection", "text")
_NOTES: Final = ("note", "extended")
_PASSAGES: Final = (*_TEXTS, *_NOTES)
_FIELDS: Final = {*_ADDRESSES, *_TITLES, *_TAGS, *_FOLDERS, *_DATES, *_PASSAGES}
_QUOTED: Final = re.compile(r"""(["'])(.{0,200}?)\1(?=\s*[,\]])""")
_NUMBER: Final = re.compile(r"\d{1,17}", re.ASCII)
_TAG: Final = re.compile(
    r"""<(a|h1|h3|dd|/?dl)\b((?:"[^"]*"|'[^']*'|[^"'<>])*)>|<(?:/a|/h[13])\b""", re.IGNORECASE
)
"""A tag that is read, or one that ends a title or a heading."""
_ATTRIBUTE: Final = re.compile(r"""(?<![\w-])([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))""")
_MARKUP: Final = re.compile(r"<[^<>]*>")
_SLASH: Final = re.compile(r"\s*/\s*")
_SECONDS_TO_1970: Final = 11_644_473_600
"""The seconds from 1601, from which Chrome counts, to 1970."""


def _split_tags(value: Any) -> Any:
    """Split `a|b`, `a,b` or `['a', 'b']`."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return [match[2] for match in _QUOTED.finditer(value)]
    return re.split("[|,]", value)


def _to_seconds(value: Any) -> Any:
    """Convert milliseconds, or microseconds since 1970 or 1601, to seconds since 1970."""
    if not _NUMBER.fullmatch(str(value).strip()):
        return value
    number = int(value)
    if number >= 10**16:  # in microseconds since 1970, this is after the year 2286
        number -= _SECONDS_TO_1970 * 10**6
    if number >= 10**14:
        return number / 10**6
    return number / 1_000 if number >= 10**11 else number


class _Bookmark(ExternalModel):
    url: Block = Field(default="", validation_alias=AliasChoices(*_ADDRESSES))
    title: Title = Field(default=None, validation_alias=AliasChoices(*_TITLES))
    tags: Annotated[Tags, BeforeValidator(_split_tags)] = Field(
        default=(), validation_alias=AliasChoices(*_TAGS)
    )
    folder: Line = Field(default=None, validation_alias=AliasChoices(*_FOLDERS))
    saved_at: Annotated[Timestamp, BeforeValidator(_to_seconds)] = Field(
        default=None, validation_alias=AliasChoices(*_DATES)
    )
    text: Block = Field(default="", validation_alias=AliasChoices(*_TEXTS))
    note: Block = Field(default="", validation_alias=AliasChoices(*_NOTES))


def _find_program(beginning: str) -> str | None:
    """Return the name of the program whose files begin like this, or None."""
    text = beginning.lstrip().casefold()
    content: Container[str] = text
    if text.startswith("<"):
        signatures = _HTML_SIGNATURES
    elif text.startswith(("[", "{")):
        signatures = _JSON_SIGNATURES
    else:
        signatures, content = _CSV_SIGNATURES, list_columns(text)
    names = (name for name, parts in signatures if all(part in content for part in parts))
    return next(names, None)


def _read_records(file: SourceFile) -> Iterator[Record]:
    """Yield a record for each link with a note, each invalid row of a table, and all links."""
    text, warnings = read_any_text(file.path, MAX_BYTES)
    name = _find_program(text[:BEGINNING_BYTES])
    if name is None:
        raise Unreadable("is no list of links that Carrel can read")
    entries: Iterable[dict[str, Any]]
    match text.lstrip()[:1]:
        case "<":
            entries, is_whole = _read_page(text, has_sections=name != _BROWSER)
            if not is_whole:
                warnings += ("seems to be cut off: if links are missing, export it again",)
        case "[" | "{":
            entries = _walk(parse_json(text))
        case _:
            rows, refusals = split_rows(file, read_rows(text, _FIELDS))
            yield from refusals
            entries = [row.cells for row in rows]
    entries = list(entries)
    for number, entry in enumerate(entries, 1):
        if any(isinstance(entry.get(field), str) and entry[field].strip() for field in _PASSAGES):
            yield Record(f"{file.name} link {number}", partial(_make_note, name, entry))
    if unread := sum(bool(entry.get("content") or entry.get("annotations")) for entry in entries):
        count = format_count(unread, "link")
        warnings += (f"has {count} with an article or annotations, which are not read",)
    yield Record(file.name, partial(make_link_list, name, entries, warnings))


def _make_note(name: str, entry: dict[str, Any]) -> Source:
    """Make a source of the note on a link, or of a text without a link."""
    bookmark, _ = validate(_Bookmark, dict(entry), _FIELDS)
    section = make_section(bookmark.text, bookmark.note)
    source = make_page_source(
        name.casefold(),
        bookmark.url or section.text,
        bookmark.title or bookmark.url or section.text,
        (replace(section, saved_at=bookmark.saved_at),),
    )
    url = bookmark.url or None
    return replace(source, origin="bookmark", tags=bookmark.tags, source_url=url, adds_only=True)


def _walk(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects with an address or a text at any depth, with the path of their folder."""
    waiting = deque([(data, "")])
    while waiting:
        node, folder = waiting.popleft()
        if isinstance(node, list):
            waiting.extend((item, folder) for item in node)
        elif isinstance(node, dict):
            if isinstance(node.get("content"), dict):  # Karakeep
                node = {**node["content"], **node, "content": None}
            if any(isinstance(node.get(name), str) for name in (*_ADDRESSES, "text")):
                if "href" in node and isinstance(node.get("tags"), str):  # Pinboard
                    node = {**node, "tags": node["tags"].split()}
                yield {**node, "folder": folder} if folder else node
            else:
                name = node.get("title") or node.get("name")
                path = f"{folder}/{name}".strip("/") if isinstance(name, str) else folder
                waiting.extend((value, path) for value in node.values())


def _read_page(text: str, *, has_sections: bool) -> tuple[list[dict[str, Any]], bool]:
    """Return the links of a page, each with its folder, and whether the page is whole.

    It uses a regular expression, because `html.parser` can take minutes for a megabyte of broken
    HTML.

    Args:
        has_sections: Whether first-level headings name folders, as in Pocket's page.
    """
    entries: list[dict[str, Any]] = []
    folders = [""]
    heading, is_link = "", False
    tags = list(_TAG.finditer(text))
    for tag, following in zip(tags, [*tags[1:], None], strict=True):
        end = following.start() if following else len(text)
        words = unescape(_MARKUP.sub("", text[tag.end() : end])).strip()
        match (tag[1] or "").lower():
            case "a":
                fields = {name.lower(): "".join(rest) for name, *rest in _ATTRIBUTE.findall(tag[2])}
                decoded = {name: unescape(value) for name, value in fields.items()}
                entries.append({**decoded, "title": words, "folder": folders[-1]})
                is_link = True
            case "dd" if is_link:
                entries[-1]["note"] = words
            case "h1" if has_sections:
                folders = [words]
            case "h3":
                heading, is_link = words, False
            case "dl":
                folders.append(to_headline(f"{folders[-1]}/{heading}".strip("/")))
                heading = ""
            case "/dl" if len(folders) > 1:
                folders.pop()
    return entries, len(folders) == 1


def make_link_list(
    name: str, entries: Iterable[dict[str, Any]], warnings: tuple[str, ...] = ()
) -> LinkList:
    """Make a list of the entries that are public web pages, without repetitions."""
    links: dict[str, Link] = {}
    private = repeated = faulty = 0
    for entry in entries:
        bookmark, faults = validate(_Bookmark, dict(entry), _FIELDS)
        faulty += bool(faults)
        if not bookmark.url and (bookmark.text or bookmark.note):
            continue
        try:
            url = PublicUrl.of_link(bookmark.url)
        except DocumentRejected:
            private += 1
            continue
        title = bookmark.title if bookmark.title != bookmark.url else None
        link = Link(
            source_id=derive_link_source_id(url),
            url=url.text,
            title=to_headline(title) if title else None,
            tags=bookmark.tags,
            state=LinkState.LISTED,
            list_name=name,
            folder=_SLASH.sub("/", bookmark.folder or "").strip("/") or None,
            saved_at=localize(bookmark.saved_at, UTC) if bookmark.saved_at else None,
        )
        repeated += link.source_id in links
        links.setdefault(link.source_id, link)
    if private:
        warnings += (f"has {format_count(private, 'link')} outside the public web; left out",)
    if repeated:
        warnings += (f"repeats {format_count(repeated, 'link')}; listed once",)
    if faulty:
        warnings += (f"has {format_count(faulty, 'link')} with an invalid field; field ignored",)
    return LinkList(name, tuple(links.values()), warnings)


FORMAT: Final = Format(
    name="Lists of links",
    extensions=(".csv", ".json"),
    read=_read_records,
    max_bytes=MAX_BYTES,
    recognizes=lambda beginning: _find_program(beginning) is not None,
    fields={
        "tables of Readwise Reader, Pocket, Instapaper, Matter": "links that are listed and not"
        " fetched; [fetch them](#lists-of-links) when you like",
        "JSON of Chrome, Firefox, Omnivore, wallabag, Pinboard, Linkwarden, Karakeep": "the same",
        "title, tags or labels": "the title and the tags of the page, once it is fetched",
        "Selection, extended, note, the text of a bookmark without a link": "a passage with the"
        " address, also before the page is fetched",
        "articles and annotations of wallabag": "counted",
        "folders, Folder, Location, status": "its folder",
        "the date it was saved": "the date `saved` of its passages, unless the page has a date",
        "`javascript:`, `chrome://`, `place:`, and hosts that are not public": "counted",
        "an address with other tracking parameters": "the same link",
    },
    example="title,url,time_added,tags,status\n"
    "On tests,https://example.com/tests,1717173713,testing|ci,unread\n",
    identity=Identity.ORIGIN,
)
HTML_FORMAT: Final = replace(
    FORMAT,
    name="Bookmarks",
    extensions=(".html", ".htm", ".txt"),
    fields={
        "bookmarks exported by a browser, pages of Pocket and Instapaper": "links, as above",
        "folders; sections such as Unread": "the folder",
        "`<DD>` below a link": "a passage",
    },
    example="<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n<DT><H3>Recipes</H3>\n<DL><p>\n"
    '<DT><A HREF="https://example.com/bread" ADD_DATE="1717173713" TAGS="rye">Bread</A>\n'
    "</DL><p>\n</DL><p>\n",
    identity=Identity.FILE,
)
CHROME_FORMAT: Final = replace(
    FORMAT,
    name="Chrome's bookmarks",
    extensions=("",),
    fields={"the file `Bookmarks` in Chrome's profile": "links, as above"},
    example="A JSON file without an extension.",
    recognizes=None,
    name_pattern=re.compile(r"\Abookmarks\Z"),
)
