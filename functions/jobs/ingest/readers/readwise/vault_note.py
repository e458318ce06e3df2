"""Parses the Markdown that Readwise exports, and that its plugin writes into an Obsidian vault.

    # Small Engines

    ![rw-book-cover](https://example.com/cover.png)

    ## Metadata
    - Author: [[Mira Vogt]]
    - Full Title: Small Engines and Why They Last
    - Category: #articles
    - Document Tags: [[engines]] [[old things]]
    - URL: https://example.org/engines

    ## Highlights
    - Oil is cheaper than regret. ([View Highlight](https://read.readwise.io/read/01d))
        - Tags: [[maintenance]]
        - Note: Print this.

This is Readwise's own template. A file from another template is read as any other Markdown. What a
person wrote elsewhere in the file becomes a passage, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers.fields import to_alphanumerics, to_headline
from functions.jobs.ingest.readers.readwise.action_tags import parse_note
from functions.jobs.ingest.readers.readwise.export import SUMMARY_TAG
from shared.knowledge.source import Locator, Section
from shared.text.markup import WIKILINK, to_plain_line, wikilink_words

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER: Final = re.compile(
    r"\A\s*(?:#[ \t]+(?P<title>[^\n]*)\n\s*)?(?:!\[[^\n]*\n\s*)?"
    r"#{1,4}[ \t]+Metadata[ \t]*\n"
    r"(?P<metadata>(?:[ \t]*[-*][ \t][^\n]*(?:\n|\Z)|[ \t]*\n(?=[-*] ))+)"
)
"""Matches all up to the end of the metadata."""
_METADATA: Final = re.compile(r"[-*][ \t]+\**(?P<key>[A-Za-z ]{1,30}?)\**:\**[ \t]*(?P<value>.*)")
_FULL_DOCUMENT: Final = re.compile(
    r"^#{1,6} Full Document[ \t]*\n\s*!?\[\[[^\n]*\]\][ \t]*$", re.MULTILINE
)
"""Matches the link to a file with the whole text, which is a source of its own."""
_HEADING: Final = re.compile(r"(?P<bullet>[-*+][ \t]+)?(?P<level>#{1,6})[ \t]+(?P<title>.*)")
_HIGHLIGHTS: Final = re.compile(r"highlights|new highlights added\b.*", re.IGNORECASE)
"""Matches the titles above highlights. Later ones are added below a title with the date."""
_ITEM: Final = re.compile(r"[-*+][ \t]+(.*)")
_ATTRIBUTE: Final = re.compile(r"[ \t]+[-*+][ \t]+\**(?P<key>Tags|Note)\**:\**[ \t]*(?P<value>.*)")
_PLACE: Final = re.compile(
    r"\s*\(\[{0,3}(?P<kind>View|Location|Page|Time)[ \t]+(?P<label>[^\[\]()\n]{1,40})"
    r"(?:\]\((?P<url>[^\s()]{1,2000})\)){0,3}\]{0,3}\)[ \t]*(?:\^[\w-]+)?\s*\Z"
)
"""Matches `([View Highlight](address))`, `([Location 117](address))` or `(Page 12)` at the end."""
_PAGE: Final = re.compile(r"[1-9]\d{0,6}", re.ASCII)
_LINK: Final = re.compile(r"\[([^\[\]\n]*)\]\([^()\s]*\)")
_ADDRESS: Final = re.compile(r"https?://[^\s<>()\[\]]+(?:\([^\s<>()]*\)[^\s<>()\[\]]*)*")


@dataclass(frozen=True, slots=True)
class VaultNote:
    """A file that another program wrote.

    Attributes:
        fields: What the file says about the document, by the names of fields in front matter.
        sections: The highlights, each of them once, and the other texts of the file.
    """

    fields: dict[str, Any]
    sections: list[Section]
    origin: str = "readwise"


@dataclass(slots=True)
class _Item:
    """The lines of a highlight with its note and tags, or of another text.

    Attributes:
        is_complete: Whether another text begins with the next line that is not indented.
    """

    is_highlight: bool
    chapter: str | None = None
    lines: list[str] = field(default_factory=list)
    note: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    is_complete: bool = False

    def add_line(self, line: str) -> None:
        """Add a line to the note, if one has begun, or else to the text."""
        if self.note:
            self.note.append(line.strip())
        else:
            self.lines.append(line)
            self.is_complete = bool(_PLACE.search(line)) or (self.is_complete and not line.strip())

    def add_attribute(self, key: str, value: str) -> None:
        """Add a line with a note or with tags."""
        self.is_complete = True
        if key == "Note":
            self.note.append(value)
        else:
            self.tags += _parse_tags(value)


def parse(text: str) -> VaultNote | None:
    """Parse the text of a file below its front matter; return None if it is not from Readwise."""
    header = _HEADER.match(text)
    if not header:
        return None
    fields, rest = _parse_metadata(header["metadata"])
    if not fields.keys() & {"title", "category"}:
        return None
    if title := header["title"]:
        fields.setdefault("title", to_plain_line(title))
    summary = fields.pop("summary", "")
    sections = [Section(summary, tags=(SUMMARY_TAG,))] if summary else []
    body = _FULL_DOCUMENT.sub("", text[header.end() :])
    items = _split_items("\n".join([*rest, body]))
    return VaultNote(fields, [*sections, *filter(None, map(_to_section, _merge_copies(items)))])


def _parse_metadata(block: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the document, and the lines that are none."""
    fields: dict[str, Any] = {}
    rest: list[str] = []
    for line in block.split("\n"):
        entry = _METADATA.fullmatch(line.strip())
        value = entry["value"].strip() if entry else ""
        match entry and entry["key"].casefold():
            case "full title":
                fields["title"] = value
            case "author" | "summary" as key:
                fields[key] = value
            case "category":
                fields["category"] = value.lstrip("#")
            case "document tags":
                fields["tags"] = _parse_tags(value)
            case "url":
                if address := _ADDRESS.search(value):
                    fields["url"] = address[0]
            case _:
                rest.append(line)
    return {key: value for key, value in fields.items() if value}, rest


def _parse_tags(value: str) -> list[str]:
    """Parse `[[a]] #[[b c]]`, `#a #b` or `a, b`. A name within brackets may be a link."""
    text = _LINK.sub(r"\1", value)
    names = [wikilink_words(link["wiki"]) for link in WIKILINK.finditer(text)]
    names += WIKILINK.sub(",", text).replace("#", ",").split(",")
    return [name for name in map(str.strip, names) if name]


def _split_items(text: str) -> list[_Item]:
    items = [_Item(is_highlight=False)]
    chapter: str | None = None
    highlights_level = 0  # none of the headings so far is that of highlights
    for line in text.split("\n"):
        heading = _HEADING.fullmatch(line.rstrip())
        level = len(heading["level"]) if heading else 0
        item = _ITEM.fullmatch(line)
        if heading and not heading["bullet"] and _HIGHLIGHTS.fullmatch(heading["title"].strip()):
            highlights_level, chapter = level, None
            items.append(_Item(is_highlight=True))
        elif heading and highlights_level and (heading["bullet"] or level > highlights_level):
            chapter = to_headline(to_plain_line(heading["title"])) or None
            items.append(_Item(is_highlight=True, chapter=chapter))
        elif heading and not heading["bullet"] and highlights_level:
            highlights_level = 0
            items.append(_Item(is_highlight=False, lines=[line]))
        elif not highlights_level:
            items[-1].add_line(line)
        elif attribute := _ATTRIBUTE.fullmatch(line):
            items[-1].add_attribute(attribute["key"], attribute["value"])
        elif item or (line[:1].strip() and items[-1].is_complete):
            items.append(_Item(is_highlight=True, chapter=chapter))
            items[-1].add_line(item[1] if item else line)
        else:
            items[-1].add_line(line)
    return items


def _merge_copies(items: Iterable[_Item]) -> list[_Item]:
    """Merge highlights with the same text: by a mistake, Readwise exports them several times."""
    merged: list[_Item] = []
    by_text: dict[str, _Item] = {}
    for item in items:
        text = _PLACE.sub("", "\n".join(item.lines)).strip()
        first = by_text.setdefault(to_alphanumerics(text) or text, item) if text else item
        if first is item or not item.is_highlight:
            merged.append(item)
        else:
            first.note += [line for line in item.note if line not in first.note]
            first.tags += item.tags
    return merged


def _to_section(item: _Item) -> Section | None:
    """Return the section of a text, or None if it is empty or discarded."""
    text = "\n".join(item.lines)
    place = _PLACE.search(text) if item.is_highlight else None
    note = parse_note("\n".join(item.note).strip(), item.tags)
    text = text[: place.start()] if place else text
    paragraphs = [paragraph for paragraph in (text.strip(), note.text) if paragraph]
    if note.is_discarded or not paragraphs:
        return None
    locator = _to_locator(place, item.chapter)
    return Section(
        "\n\n".join(paragraphs),
        tags=note.tags,
        highlight_url=place["url"] if place and place["kind"] == "View" else None,
        locators=((0, locator),) if locator != Locator() else (),
    )


def _to_locator(place: re.Match[str] | None, chapter: str | None) -> Locator:
    if not place or place["kind"] == "View":
        return Locator(chapter=chapter)
    label = place["label"].strip()
    if place["kind"] == "Page" and _PAGE.fullmatch(label):
        return Locator(page=int(label), chapter=chapter, url=place["url"])
    return Locator(location=label, chapter=chapter, url=place["url"])
