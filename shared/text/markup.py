"""Removes the marks of Markdown, and of the HTML in it, so that people see plain text.

Marks are the characters with which Markdown formats text: `**`, `#`, `[`, `>` and so on. Stored
texts keep their marks; snippets, excerpts, summaries and cluster names omit them. Code and formulas
stay as they are, except that the fences around blocks of code are removed. All functions take
linear time.
"""

from __future__ import annotations

import re
from functools import partial
from html import unescape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

QUOTE_MARKS: Final = re.compile(r"\A\s*(?:>\s?)+")
"""The marks `>` at the beginning of a quoted line."""
LIST_ITEM: Final = re.compile(r"\s*(?:[-*+•‣·]|\d{1,3}[.)])\s+")
"""The bullet or number at the beginning of a list item."""
CHECK_BOX: Final = re.compile(r"\A\[[^\[\]]\](?:\s+|$)")
"""The check box at the beginning of a list item's text, `[ ]` or `[x]`."""
INDENTATION: Final = re.compile(r" {4}|\t")
"""The indentation of a line of code outside paragraphs and lists."""
CALLOUT: Final = re.compile(r"\A\s*\[![\w |-]+\][+-]?(?:\s+|$)")
"""The beginning of a callout after the quotation mark, such as `[!tip]- `."""
WIKILINK: Final = re.compile(r"\[\[(?P<wiki>[^\[\]\n]++)\]\]")
"""A link to another note by its name, as Obsidian writes it: `[[Note]]` or `[[Note|words]]`."""
LINK_DEFINITION: Final = re.compile(
    r"^[ ]{0,3}\[(?!\^)(?P<label>[^\[\]\n]++)\]:[ \t]*+"
    r"(?:<(?P<angled>[^<>\n]++)>|(?P<address>(?=\S*[/#]|\S*\.\w{1,5}(?:\s|$))\S++))"
    r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\)))?[ \t]*+$",
    re.MULTILINE,
)
"""The definition of a link's address on a line of its own: `[label]: https://...`.

Links refer to it as `[words][label]`. A line such as `[Ann]: hello.` is not a definition.
"""
FOOTNOTE_LABEL: Final = re.compile(r"\A\s*\[\^[\w-]++\]:\s*+")
"""The label with which a footnote's text begins."""
CLOSING_HASHES: Final = re.compile(r"(?<=\s)#++$")
"""The hashes at the end of a heading, such as `## Title ##`."""

_FENCE: Final = re.compile(
    r"^(?P<start>[ \t>]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)(?P<marks>`{3,}+(?=[^`\n]*$)|~{3,}+)"
    r"(?P<language>.*)",
    re.MULTILINE,
)
"""The line before a block of code, or after it."""
_HEADING: Final = re.compile(r"\s*#{1,6}\s+")
_RULE_MARKS: Final = " \t|:-=*_"
"""The characters of horizontal rules, underlines of headings, and lines below the head of a
table."""
_MIN_RULE: Final = 3
"""A rule has at least this many characters."""
_ALIAS: Final = re.compile(r"\\?\|")
"""The bar before the words of a wikilink, which is escaped in tables."""
_GENERATED_ID: Final = re.compile(r"\^[0-9a-f]{6}")
"""The id that Obsidian gives to a block to which its author links."""
_FORMULA: Final = (
    r"(?<![\\$])\${1,2}+(?=[^\s$])(?=[^$\n]*?[\\_^{])(?:[^$\n\\]|\\[^\n])++(?<!\s)\${1,2}+(?!\d)"
)
"""TeX in dollar signs, which amounts of money and names of variables do not resemble."""
_CODE: Final = (
    r"(?P<code>(?<!`)(?P<ticks>`++)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)"
    rf"|{_FORMULA})"
)
"""Code or a formula within a line. The expressions below match it first, so that its contents stay
as they are."""
_SPACED_TAGS: Final = (
    *("blockquote", "br", "center", "dd", "details", "div", "dl", "dt", "figcaption", "figure"),
    *("h[1-6]", "hr", "iframe", "img", "li", "ol", "p", "pre", "summary", "table", "tbody", "td"),
    *("tfoot", "th", "thead", "tr", "ul", "video", "audio"),
)
"""HTML elements that separate words. Names that are common placeholders in commands, such as
`<source>`, are left out."""
_INLINE_TAGS: Final = (
    *("a", "abbr", "b", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark"),
    *("q", "rp", "rt", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u"),
    "wbr",
)
"""HTML elements that may occur within a word."""
_ATTRIBUTE: Final = (
    r"\s++(?:[a-z][\w:.-]*+\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>=`]++)"
    r"|(?:open|controls|hidden|allowfullscreen)\b)"
)
_TAG: Final = (
    r"(?P<tag><(?P<letter>[abiqsu])>"
    rf"|</?(?:(?P<spaced>{'|'.join(_SPACED_TAGS)})|{'|'.join(_INLINE_TAGS)})"
    rf"(?:{_ATTRIBUTE})*+\s*+/?>)"
)
_CLOSING: Final = re.compile(r"</([a-z])>", re.IGNORECASE)
"""The closing tag of an HTML element whose name is one letter."""
# Code, an HTML comment or tag, an address in angle brackets, a footnote mark, or a link or image.
_LINK: Final = re.compile(
    rf"{_CODE}"
    r"|<!--[^<>]*+(?<=--)>"
    rf"|(?i:{_TAG})"
    r"|<(?P<address>https?://[^\s<>]++|[\w.+-]++@[\w.-]++)>"
    r"|\[\^[\w-]++\](?!\()|\^(?=\[[^\[\]\n]*+\])"  # a footnote mark
    rf"|(?P<image>!?)(?:{WIKILINK.pattern}"
    r"|\[(?P<words>[^\[\]\n]*+)\](?:\([ \t]*+"
    r"(?:<[^<>\n]*+>|(?:[^\s()]|\([^\s()]*+\))*+)"  # the address
    r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'))?[ \t]*+\)"
    r"|(?P<label>\[[^\[\]\n]*+\])))"
)
_IMAGE_NAME: Final = re.compile(r"!\[[^\[\]\n]*+\]\([ \t<]*+(?:[^\s()<>?#]*/)?([^\s()<>?#/]++)")
"""An image. The group matches the file name in its address."""
_ENTITY: Final = re.compile(
    rf"{_CODE}|&(?:#[0-9]{{1,7}}|#x[0-9a-f]{{1,6}}|[a-z][a-z0-9]{{1,30}});", re.IGNORECASE
)
# Code, an escaped character, or an emphasis mark.
_MARK: Final = re.compile(
    rf"{_CODE}|\\(?P<escaped>[*_~=\[\]#`>|-])|(?P<mark>\*\*|\*|__|_|~~|==)(?![*_~=]{{3}})"
)
_MARKED: Final = re.compile(r"[\[*_~=`#>|<\\&]|---")
"""Every text with marks contains a match, for a quick check."""


def to_plain_text(text: str) -> str:
    """Remove the marks of a text, and keep its lines."""
    return "\n".join(_iterate_plain_lines(text)) if _MARKED.search(text) else text


def to_plain_line(text: str) -> str:
    """Remove the marks of a text, and put it on one line.

    A text that consists only of images becomes their file names. One that consists only of other
    marks keeps them, so that the line is not empty.
    """
    words = to_plain_text(text).split()
    names = _IMAGE_NAME.findall(text) if not words else []
    return " ".join(words or names or text.split())


def read_lines(text: str, *, is_whole: bool = False) -> list[tuple[str, str | None]]:
    """Return each line of a text, and of code its language, such as `python` or "", or else None.

    Fences become empty lines, and code in a quotation loses the marks `>`.

    Args:
        is_whole: Whether a fence without an end makes the rest of the text code. In a part of a
            text, the code may be on either side of it, so no line between fences counts as code.
    """
    lines: list[tuple[str, str | None]] = []
    fence: re.Match[str] | None = None
    is_in_paragraph = is_in_list = False
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            is_end = (
                mark and not mark["language"].strip() and mark["marks"].startswith(fence["marks"])
            )
            code = QUOTE_MARKS.sub("", line) if ">" in fence["start"] else line
            lines.append(("" if is_end else code, fence["language"].strip()))
            fence = None if is_end else fence
        elif mark:
            fence, is_in_paragraph = mark, False
            lines.append(("", fence["language"].strip()))
        else:
            is_indented = INDENTATION.match(line) is not None
            if line.strip() and not is_indented:
                is_in_list = LIST_ITEM.match(line) is not None
            # Within a paragraph or a list, an indented line is not code.
            is_code = is_indented and not is_in_paragraph and not is_in_list
            is_in_paragraph = bool(line.strip()) and not is_code
            lines.append((line, "" if is_code else None))
    if fence and not is_whole:
        return read_lines(_FENCE.sub("", text))
    return lines


def strip_inline_marks(text: str) -> str:
    """Remove the marks of a paragraph.

    Links are replaced by their words, and entities by their characters. Images, emphasis, footnote
    marks, HTML tags and comments are removed.
    """
    keep_words = partial(_keep_words, closed=frozenset(map(str.lower, _CLOSING.findall(text))))
    unlinked = _LINK.sub(keep_words, text)
    if "](" in unlinked or "][" in unlinked:  # Links contained an image or a footnote mark.
        unlinked = _LINK.sub(keep_words, unlinked)
    return _ENTITY.sub(_decode_entity, _strip_emphasis(unlinked))


def wikilink_words(wikilink: str) -> str:
    """Return what Obsidian shows for a wikilink, given the text within `[[...]]`.

    The link may name a note, a heading in it and the words to show: `folder/Note#Heading|words`.
    Without words, the note's name and the heading are shown, without the folder. A link to a block
    of the same note shows the block's name, unless Obsidian generated it.
    """
    target, *words = _ALIAS.split(wikilink, maxsplit=1)
    if words and words[0].strip():
        return words[0].strip()
    path, *parts = (part.strip() for part in target.split("#"))
    name = path.rpartition("/")[2].removesuffix(".md")
    headings = (part for part in parts if not part.startswith("^"))  # `^` begins the id of a block
    label = " > ".join(part for part in (name, *headings) if part)
    return label or next((part[1:] for part in parts if not _GENERATED_ID.fullmatch(part)), "")


def wikilink_target(wikilink: str) -> str:
    """Return the note or file to which a wikilink leads, or "" for a link within the same note."""
    return _ALIAS.split(wikilink, maxsplit=1)[0].partition("#")[0].strip()


def _iterate_plain_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without their marks. Marks are removed paragraph by paragraph."""
    paragraph: list[str] = []
    for line, language in read_lines(text):
        if line.strip() and language is None:
            paragraph.append(_strip_block_marks(line))
            continue
        yield from _strip_paragraph(paragraph)
        yield line
        paragraph = []
    yield from _strip_paragraph(paragraph)


def _strip_paragraph(lines: list[str]) -> list[str]:
    """Remove the marks within a paragraph's lines, some of which may span several lines."""
    return strip_inline_marks("\n".join(lines)).split("\n") if lines else []


def _strip_block_marks(line: str) -> str:
    """Remove rules, and the marks at the beginning of a line except those of list items."""
    stripped = line.strip()
    if len(stripped) >= _MIN_RULE and not stripped.strip(_RULE_MARKS):
        return ""
    line = CALLOUT.sub("", QUOTE_MARKS.sub("", line))
    line = FOOTNOTE_LABEL.sub("", LINK_DEFINITION.sub("", line))
    if heading := _HEADING.match(line):
        return CLOSING_HASHES.sub("", line[heading.end() :].rstrip()).rstrip()
    if item := LIST_ITEM.match(line):
        return item[0] + CHECK_BOX.sub("", line[item.end() :])
    return line


def _keep_words(match: re.Match[str], closed: Collection[str]) -> str:
    """Return the words with which to replace a match of `_LINK`.

    Args:
        closed: The one-letter HTML elements that the paragraph closes. Without a closing tag, as in
            `a<b>c`, angle brackets around a letter are a comparison.
    """
    is_comparison = match["letter"] and match["letter"].lower() not in closed
    if match["code"] or is_comparison:
        return match[0]
    if match["wiki"]:
        return "" if match["image"] else wikilink_words(match["wiki"])
    if match["tag"]:
        return " " if match["spaced"] else ""
    if match["label"] and not _is_reference(match):
        return match[0]
    return match["address"] or match["words"] or ""


def _is_reference(match: re.Match[str]) -> bool:
    """Return whether `[words][label]` is a link, unlike `table[row][column]` or citations [2][3].

    Whether the label is defined does not matter, because the definition may be in another passage.
    """
    before = match.string[match.start() - 1 : match.start()]
    return not before.isalnum() and any(map(str.isalpha, match["words"]))


def _decode_entity(match: re.Match[str]) -> str:
    return match[0] if match["code"] else unescape(match[0]).replace("\xa0", " ")


def _strip_emphasis(text: str) -> str:
    """Remove pairs of emphasis marks, and the backslashes of escapes."""
    removed: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    for token in _MARK.finditer(text):
        start, end = token.span()
        mark = token["mark"]
        if token["escaped"]:
            removed.append((start, start + 1))
        elif mark:
            # A mark closes emphasis after a character, and opens it before one. Between Latin
            # letters it does neither, as in `snake_case`.
            before, after = text[start - 1 : start], text[end : end + 1]
            closes = before.strip() and not _is_latin(after)
            if closes and mark in opened:
                removed += [opened.pop(mark), (start, end)]
            elif after.strip() and not _is_latin(before):
                opened[mark] = start, end
    parts, position = [], 0
    for start, end in sorted(removed):
        parts.append(text[position:start])
        position = end
    return "".join([*parts, text[position:]])


def _is_latin(character: str) -> bool:
    """Return whether a mark next to this character is part of a word or number, as in `2**8`."""
    return character.isalnum() and character.isascii()
