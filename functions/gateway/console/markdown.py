"""Renders the text of a passage: Markdown as HTML, with the words that a search matched marked.

Anybody may have written the text. HTML in it is shown as text, no picture is loaded, and only http,
https and mailto addresses become links.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_CHARACTERS: Final = 10_000
"""A longer text is not rendered: 10,000 opening brackets take 0.2 s, and twice as many 0.5 s."""
_MAX_NESTING: Final = 50
"""markdown-it drops what is nested deeper."""
_LINE_BREAK: Final = re.compile("&lt;br */?&gt;", re.IGNORECASE)
"""The only HTML that means something here: cells of tables have no other line breaks."""
_MAX_HIGHLIGHTED_TERMS: Final = 50
"""At most this many terms are highlighted in a text: the longest, if there are more."""


def render_markdown(text: str, terms: Collection[str] = ()) -> Markup | None:
    """Return Markdown as HTML.

    Returns None if the text is too long, nested too deeply, or cut inside a block of code: with one
    fence left, nothing says on which side of it the code is.

    Args:
        terms: The terms to highlight, as for `split_matches`.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    parser = _make_parser()
    tokens = parser.parse(f"{text}\n")
    if any(token.level >= _MAX_NESTING - 1 or _is_open_fence(token) for token in tokens):
        return None
    _shift_headings(tokens)
    for token in tokens:
        if style := token.attrs.pop(
            "style", None
        ):  # alignment of a cell: the CSP blocks inline styles
            token.attrs["class"] = str(style).removeprefix("text-align:")
        if token.children:
            token.children = list(_sanitize_links(token.children))
    html = parser.renderer.render(tokens, parser.options, {"terms": terms})
    return Markup(html)  # noqa: S704 - the renderer escapes all texts


def split_matches(text: str, terms: Collection[str]) -> list[tuple[str, bool]]:
    """Split a text at the terms to highlight.

    Args:
        terms: The terms, of which at most the `_MAX_HIGHLIGHTED_TERMS` longest are highlighted.
            They match whole words in any case. If several begin at the same place, the longest is
            highlighted.

    Returns:
        The parts of the text in order, and whether each is such a term.
    """
    longest_terms = sorted(filter(None, terms), key=len, reverse=True)[:_MAX_HIGHLIGHTED_TERMS]
    if not longest_terms:
        return [(text, False)]
    pattern = rf"(?<!\w)({'|'.join(map(re.escape, longest_terms))})(?!\w)"
    parts = re.split(pattern, text, flags=re.IGNORECASE)
    return [(part, index % 2 == 1) for index, part in enumerate(parts) if part]


def get_web_address(address: str | None) -> str | None:
    """Return an address if it is safe to link to: one of http or https. Otherwise return None."""
    if not address:
        return None
    try:
        url = urlsplit(address)
    except ValueError:
        return None
    return address if url.scheme in {"http", "https"} and url.netloc else None


@cache
def _make_parser() -> MarkdownIt:
    # Pages without Markdown do not wait for this import.
    from markdown_it import MarkdownIt

    options = {"html": False, "breaks": True, "maxNesting": _MAX_NESTING}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.disable("reference")  # ingest has resolved these, and `[Ann]: hello` is a line of speech
    for kind in ("text", "code_inline", "code_block", "fence"):
        parser.add_render_rule(kind, _render_text)
    # A wide table scrolls in a box of its own, also by keyboard.
    box = '<div class="wide" role="group" aria-label="Table" tabindex="0"><table>\n'
    parser.add_render_rule("table_open", lambda *_: box)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _render_text(
    _renderer: object, tokens: Sequence[Token], index: int, _options: object, env: dict[str, Any]
) -> str:
    token = tokens[index]
    html = "".join(
        f"<mark>{escape(part)}</mark>" if is_match else escape(part)
        for part, is_match in split_matches(token.content, env["terms"])
    )
    if token.type == "text":
        return _LINE_BREAK.sub("<br>", html)
    return f"<code>{html}</code>" if token.type == "code_inline" else f"<pre>{html}</pre>\n"


def _is_open_fence(token: Token) -> bool:
    """Return whether a block of code has only one of its fences."""
    if token.type != "fence" or token.map is None:
        return False
    first, end = token.map
    return token.content.count("\n") != end - first - 2


def _shift_headings(tokens: Sequence[Token]) -> None:
    """Renumber headings to start below the page's title, without gaps."""
    enclosing: list[str] = []
    for opening, closing in zip(tokens, tokens[2:], strict=False):  # the text is between them
        if opening.type == "heading_open":
            enclosing = [tag for tag in enclosing if tag < opening.tag] + [opening.tag]
            opening.tag = closing.tag = f"h{min(1 + len(enclosing), 6)}"


def _sanitize_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Reduce unsafe links to their words, and pictures to links or words."""
    from markdown_it.token import Token

    is_in_link = is_hidden = False
    for token in tokens:
        address = _get_link_address(str(token.attrs.get("href") or token.attrs.get("src") or ""))
        link: dict[str, str | int | float] = {"href": address or "", "rel": "noopener noreferrer"}
        if token.type == "image":
            name = token.content or unquote(str(token.attrs["src"]).rpartition("/")[2])
            is_link = address is not None and not is_in_link
            yield Token("link_open", "a", 1, attrs=link, hidden=not is_link)
            yield Token("text", "", 0, content=f"Picture: {name}")
            yield Token("link_close", "a", -1, hidden=not is_link)
            continue
        if token.type == "link_open":
            is_in_link, is_hidden = True, address is None
            token.attrs, token.hidden = link, is_hidden
        elif token.type == "link_close":
            is_in_link, token.hidden = False, is_hidden
        yield token


def _get_link_address(address: str) -> str | None:
    is_mail = address.lower().startswith("mailto:")
    return address if is_mail else get_web_address(address)
