"""Reads Markdown: replaces markup that needs the whole file or the author's editor.

A chunk of the text is read without the rest of the file, so link addresses move to their links, and
links to other notes become words. Other Markdown stays in the text: emphasis, headings, lists,
check boxes, links to web pages, footnotes, HTML. `shared.text.markup` removes it from titles,
snippets and summaries.

| in the file | in the text |
|---|---|
| `[[Note]]`, `[[folder/Note#Part]]`, `[[Note|words]]` | `Note`, `Note > Part`, `words` |
| `![[Note]]`, `![[picture.png]]` | nothing |
| `#[[a tag]]`, as in Logseq and Roam | `a tag` |
| `[words][label]`, `[label][]`, `[label]` with `[label]: address` | `[words](address)` |
| `[label]: address` | nothing |
| `<!-- comment -->` | nothing |
| of Logseq `id:: 6657...`, `collapsed:: true`, `((6657...))`, `{{query ...}}` | nothing |
| in a graph of Logseq: `key:: value`, `SCHEDULED: <...>` on lines of their own | nothing |
| in a vault: `%% comment %%`, and block ids such as ` ^37066d` at the end of a line | nothing |
| in a vault: code blocks with queries for Dataview, Tasks or Obsidian's search | nothing |
| in a vault: the field `Rating:: 5` | `Rating: 5` |

Other code stays as it is. The functions here also collect the links, the tags and the title.

All functions take linear time on any text, because the patterns are made so that a regular
expression cannot try a text in many ways: repeats are possessive (`++`) or limited.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shared.text.markup import (
    CLOSING_HASHES,
    LINK_DEFINITION,
    WIKILINK,
    read_lines,
    to_plain_line,
    wikilink_target,
    wikilink_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_QUERIES: Final = ("dataview", "dataviewjs", "tasks", "query")
"""The languages of code blocks with queries in a vault."""
_PLACEHOLDER: Final = re.compile(r"\0(\d+)\0")
"""What stands for a line of code. Texts have no NUL characters."""
_TITLE: Final = re.compile(
    r"^#(?P<heading>[ \t][^\n]*)$"
    r"|(?:\A\s*|(?<=\n\n))^(?P<underlined> {0,3}[^\s>#`~+*|=-][^\n]*)\n {0,3}=+[ \t]*$",
    re.MULTILINE,
)
"""A heading of the first level: `# Title`, or `Title` above `=====`."""
_CODE: Final = r"(?<!`)(?P<ticks>`++)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)"
"""A pattern that matches code in a line."""
_REFERENCE: Final = re.compile(
    rf"{_CODE}"
    rf"|(?P<definition>{LINK_DEFINITION.pattern}\n?)"  # [label]: address
    # [words][label], [label][] or [label], but not [words](address), [[Note]] or \[words]
    r"|(?<![\[\\])\[(?P<words>[^\[\]\n]++)\](?:\[(?P<label_after>[^\[\]\n]*+)\])?+(?![\](:])",
    re.MULTILINE,
)
"""Matches code, the definition of a link's address, or a link by its label."""
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LOGSEQ: Final = (
    rf"^[ \t]*(?:id::[ \t]*{_UUID}|collapsed::[ \t]*(?:true|false))[ \t]*$"  # properties of a block
    r"|^[ \t]*:LOGBOOK:[ \t]*(?:\n[ \t]*CLOCK:[^\n]*+)*+\n[ \t]*:END:[ \t]*$"  # times of work
    r"|^[ \t]*(?:ls-type|hl-(?:color|type|stamp)|(?:card|query)-[a-z-]+|logseq\.[\w.-]+|heading"
    r"|background-color|template|template-including-parent)"
    r"::[^\n]*+$"  # of highlights in a PDF, flash cards and other blocks
    r"|^[ \t]*(?:-[ \t]+)?#\+(?:BEGIN|END)_[A-Z]+(?:[ \t][^\n]*+)?$"  # the ends of a quotation
    r"|(?<=\))\{:(?:height|width)[^{}\n]*+\}"  # the size of a picture
    rf"|\(\({_UUID}\)\)|\{{\{{(?:embed|query|renderer)\b[^{{}}\n]*+\}}\}}"  # other blocks, queries
)
"""What only Logseq understands in its Markdown."""
_GRAPH: Final = re.compile(
    r"^[ \t]*+(?:-[ \t]++)?(?:[\w./-]++::(?:[ \t][^\n]*+)?"
    r"|(?:SCHEDULED|DEADLINE):[ \t]*+<[^<>\n]*+>[ \t]*+)(?:\n|\Z)",
    re.MULTILINE,
)
"""A line with a property, or the date of a task, in Logseq."""
_EMPTY_BULLET: Final = re.compile(r"^[ \t]*+-[ \t]*+(?:\n|\Z)", re.MULTILINE)
_TOKEN: Final = re.compile(
    rf"{_CODE}"
    r"|(?P<comment><!--)"  # the beginning of a comment
    rf"|(?P<embed>!?)(?P<hash>(?<!\S)#)?{WIKILINK.pattern}"  # [[Note]], ![[Note]], #[[a tag]]
    # The middle and end of a link, `](<address>` or `](address`, with balanced parentheses.
    r"|\]\([ \t]*(?:<(?P<angled>[^<>\n]++)>|(?P<address>(?:[^\s()<>]|\([^\s()<>]*\))++))"
    rf"|(?P<logseq>{_LOGSEQ})"
    r"|(?P<vault_comment>%%)"  # the beginning of a comment in a vault
    r"|(?<=[\w)*])(?P<field>::)(?=[ \t])"  # the colons of `Rating:: 5`
    r"|(?:(?<=\s)|^)\^(?P<block_id>[A-Za-z0-9-]++)(?=[ \t]*$)",  # ^37066d at the end of a line
    re.MULTILINE,
)
"""Matches code, or markup to replace or to collect an address from."""
_NO_TAGS: Final = re.compile(
    rf"{_CODE}|\$\$[^$\n]*(?:\n(?!\n)[^$\n]*)*\$\$"
    r"|^[ \t]*#(?:include[ \t]*[<\"]|(?:define|undef|ifn?def)[ \t]+[A-Z_]|endif\b)",
    re.MULTILINE,
)
"""Code, formulas, and directives of C, also outside code."""
_HTML_TAG: Final = re.compile(r"<[A-Za-z][^<>]*+>")
_INLINE_TAG: Final = re.compile(r"(?<!\S)#(?=[\w/-]*[^\W\d_])([\w/-]{1,100})(?![\w/'\u2019-])")
"""A tag within a text, such as `#bread/rye`. It contains a letter, so `#12` is not a tag."""
_END_OF_COMMENT: Final = "-->"
_END_OF_VAULT_COMMENT: Final = "%%"
_BLANK_REST: Final = re.compile(r"[ \t]*(?:\n|\Z)")
"""Matches the rest of a line, with its newline, if it is blank."""


@dataclass(slots=True)
class Markdown:
    """A text and its links.

    Attributes:
        text: The text without markup that only the author's editor understands.
        wikilinks: The targets of `[[...]]` and `![[...]]`, in order and without headings.
        addresses: The addresses of other links, as they are written.
        tags: The tags in brackets, which may contain spaces, and then tags such as `#travel`.
    """

    text: str = ""
    wikilinks: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_markdown(text: str, *, in_vault: bool, in_graph: bool = False) -> Markdown:
    """Read a Markdown text.

    Args:
        text: The text, without front matter.
        in_vault: Whether the text is in an Obsidian vault, where `%%` begins a comment and `^` a
            block id.
        in_graph: Whether the text is in a graph of Logseq, whose properties are no text unless
            there is nothing else.
    """
    markdown = Markdown()
    lines = text.splitlines()
    text = _resolve_references("\n".join(_set_code_aside(text, in_vault=in_vault)))
    text = _drop_properties(text) if in_graph else text
    # A comment without an end stays. Looking for its end each time would take quadratic time.
    last_comment_end = text.rfind(_END_OF_COMMENT)
    parts: list[str] = []
    copied_to = position = 0
    while token := _TOKEN.search(text, position):
        start, position = token.span()
        replacement: str | None = token["logseq"] and ""
        if token["comment"] and start < last_comment_end:
            # HTML's shortest comment is `<!-->`: its two hyphens both begin and end it.
            position = text.index(_END_OF_COMMENT, start + len("<!")) + len(_END_OF_COMMENT)
            replacement = ""
        elif token["vault_comment"] and in_vault:
            end = text.find(_END_OF_VAULT_COMMENT, position)
            if end >= 0:
                position, replacement = end + len(_END_OF_VAULT_COMMENT), ""
        elif in_vault and (vault_replacement := _replace_vault_markup(token)) is not None:
            replacement = vault_replacement
        elif token["wiki"] and (in_vault or _is_wikilink(text, token)):
            replacement = _collect_wikilink(token, markdown)
        elif address := token["angled"] or token["address"]:
            markdown.addresses.append(address)
        if replacement is not None:
            parts += filter(None, (text[copied_to:start], replacement))
            if not replacement:
                position = _close_gap(parts, text, position)
            copied_to = position
    text = "".join([*parts, text[copied_to:]])
    text = _EMPTY_BULLET.sub("", text) if in_graph else text
    markdown.tags += _find_tags(text)
    markdown.text = _PLACEHOLDER.sub(lambda match: lines[int(match[1])], text)
    return markdown


def join_markdown(parts: Sequence[Markdown]) -> Markdown:
    """Return the parts of a file as one text."""
    return Markdown(
        "\n\n".join(part.text for part in parts),
        wikilinks=[link for part in parts for link in part.wikilinks],
        addresses=[address for part in parts for address in part.addresses],
        tags=[tag for part in parts for tag in part.tags],
    )


def find_title(text: str) -> str | None:
    """Return the first heading of the first level. A line `# ...` in code is a comment."""
    lines = read_lines(text, is_whole=True)
    prose = "\n".join("" if language is not None else line for line, language in lines)
    for match in _TITLE.finditer(prose):
        if title := CLOSING_HASHES.sub("", match["heading"] or match["underlined"]).strip():
            return to_plain_line(title)
    return None


def _set_code_aside(text: str, *, in_vault: bool) -> Iterator[str]:
    """Yield the lines, of code only their numbers. In a vault, queries are left out."""
    for number, (line, language) in enumerate(read_lines(text, is_whole=True)):
        if language is None:
            yield line
        elif not (in_vault and language in _QUERIES):
            yield f"\0{number}\0"


def _drop_properties(text: str) -> str:
    rest = _GRAPH.sub("", text)
    return rest if rest.strip("- \t\n") else text


def _find_tags(text: str) -> Iterator[str]:
    """Yield the tags in a text without blocks of code, such as #travel or #2024/plans.

    `#` in code, in formulas and in HTML attributes, such as `color: #a0b0c0`, begins no tag.
    """
    prose = unicodedata.normalize("NFC", _HTML_TAG.sub("", _NO_TAGS.sub("`", text)))
    return (match[1] for match in _INLINE_TAG.finditer(prose))


def _collect_wikilink(token: re.Match[str], markdown: Markdown) -> str:
    """Add a link to another note, and return its replacement."""
    words = "" if token["embed"] else wikilink_words(token["wiki"])
    markdown.wikilinks.append(wikilink_target(token["wiki"]))
    if token["hash"]:
        markdown.tags.append(words)
    return words


def _replace_vault_markup(token: re.Match[str]) -> str | None:
    """Return the replacement of a block id or a field; None for other tokens."""
    if token["block_id"]:
        return ""
    return ":" if token["field"] else None


def _resolve_references(text: str) -> str:
    """Write `[words][label]` as `[words](address)`, and remove the lines with the addresses.

    The text may at most double in length, because a hostile file could repeat a long address very
    often. Links beyond this limit stay unchanged.
    """
    addresses_by_label: dict[str, str] = {}
    for match in _REFERENCE.finditer(text):
        if match["definition"]:
            address = match["address"] or match["angled"]
            is_plain = set(" ()<>").isdisjoint(address)
            label = _normalize_label(match["label"])
            addresses_by_label.setdefault(label, address if is_plain else f"<{address}>")
    remaining_length = len(text)

    def replace(match: re.Match[str]) -> str:
        nonlocal remaining_length
        if match["definition"]:
            return ""
        label = match["label_after"] or match["words"] or ""  # empty if the match is code
        address = addresses_by_label.get(_normalize_label(label))
        if address is None or len(address) > remaining_length:
            return match[0]
        remaining_length -= len(address)
        return f"[{match['words']}]({address})"

    return _REFERENCE.sub(replace, text) if addresses_by_label else text


def _normalize_label(label: str) -> str:
    """Return a label as labels are compared: without differences of case and spacing."""
    return " ".join(label.split()).casefold()


def _close_gap(parts: list[str], text: str, end: int) -> int:
    """Remove the blanks around a removed part, and its line if nothing else is on that line.

    Args:
        parts: The text before the removed part, without empty strings. Blanks at its end may be
            removed.
        end: The offset at which the removed part ends.

    Returns:
        The offset at which the text continues.
    """
    if end < len(text) and not text[end].isspace():
        return end
    while parts and not parts[-1].rstrip(" \t"):
        parts.pop()
    if parts:
        parts[-1] = parts[-1].rstrip(" \t")
    rest = _BLANK_REST.match(text, end)
    is_alone = rest and (not parts or parts[-1].endswith("\n"))
    return rest.end() if rest and is_alone else end


def _is_wikilink(text: str, token: re.Match[str]) -> bool:
    """Return whether double brackets outside a vault are a link, not `x[[1]]` or `[[ -f x ]]`."""
    before = text[token.start() - 1 : token.start()]
    return not (before.isascii() and before.isalnum()) and token["wiki"] == token["wiki"].strip()


def replace_wikilinks(text: str) -> str:
    """Replace wikilinks with what Obsidian shows for them."""
    return WIKILINK.sub(lambda match: wikilink_words(match["wiki"]), text)
