"""Finds blocks of text in HTML, XHTML and trafilatura's output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Element = Any
    """An element of lxml, which has no types."""

LINE_BREAK: Final = "\0"
"""Stands for a line break in a block until white space is collapsed. No document contains it."""
_CELL_SEPARATOR: Final = " | "
_HTML_BLOCKS: Final = (
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer"
    " form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol p pre section summary table tbody"
    " tfoot thead tr ul"
)
_TRAFILATURA_BLOCKS: Final = "head item list quote row"
_BLOCKS: Final = frozenset((*_HTML_BLOCKS.split(), *_TRAFILATURA_BLOCKS.split()))
_CELLS: Final = frozenset({"td", "th", "cell"})
_LINE_BREAKS: Final = frozenset({"br", "lb"})
_VERBATIM: Final = frozenset({"pre"})
_SPACE: Final = re.compile(r"[ \t\r\n\f\xa0]+")
_AROUND_BREAK: Final = re.compile(r" *\0 *")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list item, table row ... on lines of its own.

    Attributes:
        tag: The name of the block's element, without the namespace.
        text: The text, not empty.
        ids: The ids of elements that begin in the block, or between it and the previous block, and
            the names of anchors, which old pages have instead.
    """

    tag: str
    text: str
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Edge:
    """The beginning or the end of a block element."""

    tag: str


def read_blocks(
    root: Element, is_ignored: Callable[[str, Element], bool] = lambda _tag, _element: False
) -> Iterator[Block]:
    """Yield the blocks below an element, in order.

    White space is collapsed, except in preformatted text. The walk uses a stack instead of
    recursion, so that elements may be nested to any depth.

    Args:
        is_ignored: Returns whether to leave out an element, given its name without the namespace
            and the element itself.
    """
    pending: list[Element | _Edge | str] = [root]
    texts: list[str] = []
    ids: set[str] = set()
    open_tags = [""]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            verbatim = not _VERBATIM.isdisjoint(open_tags)
            texts.append(node.replace("\n", LINE_BREAK) if verbatim else _SPACE.sub(" ", node))
        elif isinstance(node, _Edge):
            if text := _join_texts(texts, verbatim=open_tags[-1] in _VERBATIM):
                yield Block(open_tags[-1], text, frozenset(ids))
                ids.clear()
            texts.clear()
            if node.tag:
                open_tags.append(node.tag)
            else:
                open_tags.pop()
        else:
            tag = get_local_name(node)
            if tag:
                ids.update(filter(None, [node.get("id"), node.get("name") if tag == "a" else None]))
            if tag and not is_ignored(tag, node):
                texts.append(_choose_separator(tag, texts))
                pending += _list_contents(node, tag)
    if text := _join_texts(texts, verbatim=False):
        yield Block("", text, frozenset(ids))


def is_block(element: Element) -> bool:
    """Return whether an element is a paragraph, heading, list item, table cell ..."""
    tag = get_local_name(element)
    return tag in _BLOCKS or tag in _CELLS


def get_local_name(element: Element) -> str:
    """Return an element's name without the namespace; "" for a comment or an instruction."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _choose_separator(tag: str, texts: list[str]) -> str:
    """Return what separates an element from the texts before it in the same block."""
    if tag in _LINE_BREAKS:
        return LINE_BREAK
    return _CELL_SEPARATOR if tag in _CELLS and any(text.strip() for text in texts) else ""


def _list_contents(element: Element, tag: str) -> list[Element | _Edge | str]:
    """Return what an element contains, in reverse order."""
    contents: list[Element | _Edge | str] = [element.text or ""]
    for child in element:
        contents += (child, child.tail or "")
    if tag in _BLOCKS or _is_code_block(element, tag):
        contents = [_Edge("pre" if tag == "code" else tag), *contents, _Edge("")]
    return contents[::-1]


def _is_code_block(element: Element, tag: str) -> bool:
    """Return whether an element is preformatted text in trafilatura's output."""
    return tag == "code" and "\n" in "".join(element.itertext())


def _join_texts(texts: list[str], *, verbatim: bool) -> str:
    text = "".join(texts)
    if verbatim:
        lines = text.split(LINE_BREAK)
        return "\n".join(line.rstrip() for line in lines).strip("\n").rstrip()
    return _AROUND_BREAK.sub("\n", _SPACE.sub(" ", text)).strip()
