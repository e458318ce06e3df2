"""Boilerplate inside the articles of web pages: edit links, line numbers, subscription boxes.

trafilatura finds the article and leaves out what is around it. Before it does, this module removes
what well-known systems put into the article.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.blocks import local_name
from functions.jobs.ingest.readers.inline_markup import replace_by_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.blocks import Element

_CLASSES: Final = frozenset(
    [
        # MediaWiki
        *("ambox", "catlinks", "hatnote", "mw-cite-backlink", "mw-editsection", "mw-footer"),
        *(
            "mw-indicators",
            "mw-jump-link",
            "mw-references-wrap",
            "navbox",
            "noprint",
            "printfooter",
        ),
        *("reflist", "shortdescription", "sistersitebox"),
        # WordPress and Substack
        *("button-wrapper", "header-anchor-parent", "jp-relatedposts", "screen-reader-text"),
        *("sharedaddy", "subscription-widget", "subscription-widget-wrap"),
        # GitHub and documentation
        *("copybtn", "sr-only", "zeroclipboard-container"),
        # Marks of notes
        *("footnote-anchor", "footnote-number", "footnote-ref", "footnote-reference"),
    ]
)
_CLASSES_BY_TAG: Final = {"sup": "reference", "ol": "references", "div": "toc"}
"""Classes that are boilerplate on one kind of element only."""
_CONTAINERS: Final = frozenset({"html", "body", "main", "article"})
"""Elements that contain the article are kept, whatever their classes are."""
_ROLES: Final = frozenset({"doc-backlink", "doc-noteref"})
_LINE_NUMBERS: Final = frozenset(
    [
        *("blob-num", "gutter", "hljs-ln-numbers", "lineno", "linenodiv", "linenos", "linenumber"),
        *("line-number", "line-numbers", "line-numbers-rows", "ln", "lnt", "rouge-gutter"),
        "react-syntax-highlighter-line-number",
    ]
)
"""The classes of elements with line numbers. Some programs give them to the code as well."""
_NUMBERS: Final = re.compile(r"[\d\s]*")
_CODE_LINES: Final = frozenset({"blob-code", "hljs-ln-code"})
"""The classes of cells with a line of code, on GitHub and by highlight.js."""
_CODE: Final = frozenset({"pre", "code"})
_MAX_CELL: Final = 500
"""A cell with more characters contains an article. Old pages and newsletters are tables."""
_TABLE_PARTS: Final = ("thead", "tbody", "tfoot", "tr", "th", "td")


def remove_boilerplate(tree: Element) -> None:
    """Remove boilerplate, and unwrap what is in a table or a figure for its layout alone."""
    for element in list(tree.iter()):
        if _is_boilerplate(element):
            replace_by_text(element, "")
    for table in list(tree.iter("table")):
        _unwrap_code(table)
    for cell in list(tree.iter("td")):
        if len(_text(cell)) > _MAX_CELL:
            _unwrap_layout(cell)
    for figure in list(tree.iter("figure")):
        if next(figure.iter("pre"), None) is not None:
            figure.tag = "div"  # trafilatura leaves out figures, which mostly are images


def _is_boilerplate(element: Element) -> bool:
    tag = local_name(element)
    if not tag or tag in _CONTAINERS:
        return False
    classes = set(_class_names([element]))
    return bool(
        not classes.isdisjoint(_CLASSES)
        or _CLASSES_BY_TAG.get(tag) in classes
        or element.get("role") in _ROLES
        or (tag == "a" and _is_wordless(element))
        or (not classes.isdisjoint(_LINE_NUMBERS) and _NUMBERS.fullmatch(_text(element)))
    )


def _is_wordless(link: Element) -> bool:
    """Return whether a link within the page is only a sign: the ¶ of a heading, ↩ or ^."""
    return (link.get("href") or "").startswith("#") and not any(map(str.isalnum, _text(link)))


def _unwrap_code(table: Element) -> None:
    """Replace a table that has line numbers beside code by the code.

    Either a cell has all lines, or each row has one line.
    """
    is_in_code = any(local_name(parent) in _CODE for parent in table.iterancestors())
    rows = [list(row) for row in table.iter("tr")]
    codes = [cell for row in rows for cell in row if not _NUMBERS.fullmatch(_text(cell))]
    if is_in_code or _CODE_LINES & {name for row in rows for name in _class_names(row[-1:])}:
        text = "\n".join(_text(cell) for row in rows for cell in row[-1:])
    elif codes and len(codes) <= len(rows) and all(map(_is_preformatted, codes)):
        text = "\n".join(_text(pre) for cell in codes for pre in cell.iter("pre"))
    else:
        return
    code = table.makeelement("span" if is_in_code else "pre")
    code.text = text
    code.tail = table.tail
    table.getparent().replace(table, code)


def _unwrap_layout(cell: Element) -> None:
    """Replace a table around an article by blocks. In a cell, trafilatura divides sentences."""
    table = next(cell.iterancestors("table"), None)
    if table is None:
        return
    own = [part for part in table.iter(*_TABLE_PARTS) if next(part.iterancestors("table")) is table]
    for part in (table, *own):
        part.tag = "div"


def _is_preformatted(cell: Element) -> bool:
    """Return whether all text of an element is preformatted."""
    return _text(cell).split() == "".join(_text(pre) for pre in cell.iter("pre")).split()


def _class_names(elements: list[Element]) -> Iterator[str]:
    for element in elements:
        yield from (element.get("class") or "").split()


def _text(element: Element) -> str:
    return "".join(element.itertext())
