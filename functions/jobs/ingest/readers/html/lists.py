"""Turns the lists of an article into paragraphs, which trafilatura keeps.

trafilatura drops a list without an `article` around it, and a list whose items are links, because
most such lists are menus. Here, a list belongs to the article if prose stands beside it:

    <p>The pilot keeps three books on board.</p><ul><li><a href="/tides">Tides</a></li> ...

Between the list and the prose may stand other lists, and the list's headings.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.html.blocks import get_local_name, is_block, read_blocks

if TYPE_CHECKING:
    from functions.jobs.ingest.readers.html.blocks import Element

_LISTS: Final = ("ul", "ol", "dl")
_ITEMS: Final = frozenset({"li", "dt", "dd"})
_PASSED: Final = frozenset({*_LISTS, ""})
"""Names of what may stand between a list and its prose: lists, and comments, which have no name."""
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_OUTSIDE: Final = frozenset({"nav", "header", "footer", "aside", "form", "td", "th", "pre"})
"""Elements whose lists are no prose (menus, forms, code), or are read with their table."""
_MENU: Final = re.compile(
    r"(?:^|[\s_-])(?:menu|nav|navigation|navbar|breadcrumbs?|pagination|pager|share|sharing|social"
    r"|related|recommended|popular|trending|sidebar|widget|footer|comments?|tags|categories|toc)"
    r"(?:$|[\s_-])",
    re.IGNORECASE,
)
"""The classes, ids and roles of lists that are no part of an article."""
_MENU_HEADING: Final = re.compile(
    r"\W*(?:related|more (?:from|on|in|stories|articles)|read (?:more|next)|you (?:may|might)"
    r"|recent (?:posts|articles)|recommended|most (?:read|popular)|popular|share|tags|categories"
    r"|comments?|mehr zum thema|das könnte|auch interessant|articles? (?:liés|similaires)"
    r"|artículos relacionados|ver también)\b"
    r"|\W*(?:相关|相關|関連)",  # no space ends a word of these languages
    re.IGNORECASE,
)
"""How headings above lists of further articles begin."""
_MIN_PROSE: Final = 60
"""A neighbour is prose if it has at least this many characters outside links."""


def keep_lists(tree: Element) -> None:
    """Turn the items of an article's lists into paragraphs, and their links into text."""
    for element in list(tree.iter(*_LISTS)):
        is_inner = next(element.iterancestors(*_LISTS), None) is not None
        if not is_inner and _belongs_to_article(element):
            _turn_into_paragraphs(element)


def _belongs_to_article(element: Element) -> bool:
    if any(_is_outside(ancestor) for ancestor in (element, *element.iterancestors())):
        return False
    before, headings = _find_before(element)
    if any(_MENU_HEADING.match(_get_text(heading)) for heading in headings):
        return False
    neighbours = (before, _find_after(element))
    return any(neighbour is not None and _is_prose(neighbour) for neighbour in neighbours)


def _is_outside(element: Element) -> bool:
    """Return whether an element is no part of an article, by its name or by what it calls itself.

    The whole page may call itself anything.
    """
    if element.tag in {"html", "body"}:
        return False
    marks = (element.get(name) for name in ("class", "id", "role"))
    return element.tag in _OUTSIDE or bool(_MENU.search(" ".join(filter(None, marks))))


def _find_before(element: Element) -> tuple[Element | None, list[Element]]:
    """Return what stands before a list and its headings, and the headings."""
    headings = []
    before = element.getprevious()
    while before is not None and get_local_name(before) in _PASSED | _HEADINGS:
        if get_local_name(before) in _HEADINGS:
            headings.append(before)
        before = before.getprevious()
    return before, headings


def _find_after(element: Element) -> Element | None:
    after = element.getnext()
    while after is not None and get_local_name(after) in _PASSED:
        after = after.getnext()
    return after


def _is_prose(element: Element) -> bool:
    blocks = read_blocks(element, lambda tag, _: tag in {"a", "script", "style"})
    return sum(len(block.text) for block in blocks) >= _MIN_PROSE


def _turn_into_paragraphs(element: Element) -> None:
    for part in list(element.iter()):
        tag = get_local_name(part)
        if tag == "a":
            part.tag = "span"  # trafilatura drops a paragraph that is mostly links
        elif tag in _LISTS:
            part.tag = "div"
        elif tag in _ITEMS:
            has_blocks = any(is_block(child) for child in part)
            part.tag = "div" if has_blocks else "p"
            if has_blocks:
                _wrap_beginning(part)


def _wrap_beginning(item: Element) -> None:
    """Put what an item has before its first block into a paragraph, which may stay empty."""
    inline = list(itertools.takewhile(lambda child: not is_block(child), item))
    paragraph = item.makeelement("p")
    paragraph.text, item.text = item.text, None
    item.insert(0, paragraph)
    paragraph.extend(inline)


def _get_text(element: Element) -> str:
    return "".join(element.itertext())
