"""Reads Markdown: removes markup that only the author's editor understands, and collects links.

Common Markdown stays in the text: emphasis, headings, lists, check boxes, links to web pages,
footnotes, HTML. `shared.text.markup` removes these marks from titles, snippets and summaries.

| in the file | in the text |
|---|---|
| `[[Note]]`, `[[folder/Note#Part]]`, `[[Note|words]]` | `Note`, `Note > Part`, `words` |
| `![[Note]]`, `![[picture.png]]` | nothing |
| `[words][label]`, `[label][]`, `[label]` with `[label]: address` | `[words](address)` |
| `[label]: address` | nothing, because it could end up in a different chunk from its link |
| `<!-- comment -->` | nothing |
| in a vault: `%% comment %%`, and block ids such as ` ^37066d` at the end of a line | nothing |
| in a vault: code blocks with queries for Dataview, Tasks or Obsidian's search | nothing |
| in a vault: the field `Rating:: 5` | `Rating: 5` |

Other code stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from shared.text.markup import LINK_DEFINITION, WIKILINK, wikilink_target, wikilink_words

CODE: Final = (
    r"^[ \t>]*(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+).*?(?:^[ \t>]*(?P=fence)|\Z)"  # fenced
    r"|(?<=\n\n)(?:    |\t)[^\n]*(?:\n(?:    |\t)[^\n]*)*"  # indented
    r"|(?<!`)(?P<ticks>`++)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)"  # in a line
)
"""A pattern that matches code, for `re.DOTALL | re.MULTILINE`."""
_REFERENCE: Final = re.compile(
    rf"{CODE}"
    rf"|(?P<definition>{LINK_DEFINITION.pattern}\n?)"
    r"|(?<![\[\\])\[(?P<words>[^\[\]\n]++)\](?:\[(?P<name>[^\[\]\n]*+)\])?+(?![\](:])",
    re.DOTALL | re.MULTILINE,
)
_TOKEN: Final = re.compile(
    rf"(?P<code>{CODE})"
    r"|(?P<comment><!--)"
    rf"|(?P<embed>!?){WIKILINK.pattern}"
    r"|\]\([ \t]*(?:<(?P<angled>[^<>\n]++)>|(?P<address>(?:[^\s()<>]|\([^\s()<>]*\))++))"
    r"|(?P<hidden>%%)"
    r"|(?<=[\w)*])(?P<field>::)(?=[ \t])"
    r"|(?:(?<=\s)|^)\^(?P<block>[A-Za-z0-9-]++)(?=[ \t]*$)",
    re.DOTALL | re.MULTILINE,
)
_QUERY: Final = re.compile(r"[ \t>]*[`~]{3,}[ \t]*(?:dataview|dataviewjs|tasks|query)[ \t]*\n")
_END_OF_COMMENT: Final = "-->"
_HIDDEN: Final = "%%"
_BLANK_REST: Final = re.compile(r"[ \t]*(?:\n|\Z)")


@dataclass(slots=True)
class Markdown:
    """A text and its links.

    Attributes:
        text: The text without markup that only the author's editor understands.
        wikilinks: The targets of `[[...]]` and `![[...]]`, in order and without headings.
        addresses: The addresses of other links, as they are written.
    """

    text: str = ""
    wikilinks: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)


def read_markdown(text: str, *, in_vault: bool) -> Markdown:
    """Read a Markdown text, in linear time.

    Args:
        text: The text, without front matter.
        in_vault: Whether the text is in an Obsidian vault, where `%%` begins a comment and `^` a
            block id.
    """
    markdown = Markdown()
    text = _resolve_references(text)
    last_end = text.rfind(_END_OF_COMMENT)
    parts: list[str] = []
    copied = position = 0
    while token := _TOKEN.search(text, position):
        start, position = token.span()
        replacement: str | None = None
        if token["comment"] and start < last_end:
            position = text.index(_END_OF_COMMENT, start + 2) + len(_END_OF_COMMENT)
            replacement = ""
        elif token["hidden"] and in_vault:
            end = text.find(_HIDDEN, position)
            if end >= 0:
                position, replacement = end + len(_HIDDEN), ""
        elif in_vault and (vault_replacement := _replace_vault_markup(token)) is not None:
            replacement = vault_replacement
        elif token["wiki"] and (in_vault or _is_wikilink(text, token)):
            markdown.wikilinks.append(wikilink_target(token["wiki"]))
            replacement = "" if token["embed"] else wikilink_words(token["wiki"])
        elif address := token["angled"] or token["address"]:
            markdown.addresses.append(address)
        if replacement is not None:
            parts += filter(None, (text[copied:start], replacement))
            if not replacement:
                position = _close_gap(parts, text, position)
            copied = position
    markdown.text = "".join([*parts, text[copied:]])
    return markdown


def _replace_vault_markup(token: re.Match[str]) -> str | None:
    """Return the replacement of a block id, a query or a field; None for other tokens."""
    if token["block"] or _QUERY.match(token["code"] or ""):
        return ""
    return ":" if token["field"] else None


def _resolve_references(text: str) -> str:
    """Write `[words][label]` as `[words](address)`, and remove the lines with the addresses.

    The text may at most double in length, because a hostile file could repeat a long address very
    often. Links beyond this limit stay unchanged.
    """
    addresses: dict[str, str] = {}
    for match in _REFERENCE.finditer(text):
        if match["definition"]:
            address = match["address"] or match["angled"]
            is_plain = set(" ()<>").isdisjoint(address)
            label = _normalize_label(match["label"])
            addresses.setdefault(label, address if is_plain else f"<{address}>")
    room = len(text)

    def replace(match: re.Match[str]) -> str:
        nonlocal room
        if match["definition"]:
            return ""
        address = addresses.get(_normalize_label(match["name"] or match["words"] or ""))
        if address is None or len(address) > room:
            return match[0]
        room -= len(address)
        return f"[{match['words']}]({address})"

    return _REFERENCE.sub(replace, text) if addresses else text


def _normalize_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def _close_gap(parts: list[str], text: str, end: int) -> int:
    """Remove the blanks around a removed part, and its line if nothing else is on that line.

    Args:
        parts: The text before the removed part, without empty strings. Blanks at its end may be
            removed.
        text: The whole text.
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
