"""Removes boilerplate inside web articles: edit links, line numbers, subscription boxes.

trafilatura finds the article and leaves out what surrounds it. Before that, this module removes
what well-known systems such as MediaWiki and WordPress insert into the article.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.html.blocks import get_local_name
from functions.jobs.ingest.readers.html.inline_markup import replace_with_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.html.blocks import Element

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
        # Note marks
        *("footnote-anchor", "footnote-number", "footnote-ref", "footnote-reference"),
    ]
)
_CLASSES_BY_TAG: Final = {"sup": "reference", "ol": "references", "div": "toc"}
"""Classes that are boilerplate on one kind of element only."""
_CONTAINERS: Final = frozenset({"html", "body", "main", "article"})
"""Elements that may contain the article are kept, whatever their classes are."""
_ROLES: Final = frozenset({"doc-backlink", "doc-noteref"})
_LINE_NUMBERS: Final = frozenset(
    [
        *("blob-num", "gutter", "hljs-ln-numbers", "lineno", "linenodiv", "linenos", "linenumber"),
        *("line-number", "line-numbers", "line-numbers-rows", "ln", "lnt", "rouge-gutter"),
        "react-syntax-highlighter-line-number",
    ]
)
"""The classes of elements with line numbers. Some programs give the code the same classes."""
_NUMBERS: Final = re.compile(r"[\d\s]*")
_CODE_LINES: Final = frozenset({"blob-code", "hljs-ln-code"})
"""The classes of table cells with a line of code, on GitHub and by highlight.js."""
_CODE: Final = frozenset({"pre", "code"})
_MAX_CELL: Final = 500
"""A cell with more characters contains an article, as in old pages and newsletters, whose layout is
made of tables."""
_TABLE_PARTS: Final = ("thead", "tbody", "tfoot", "tr", "th", "td")


def remove_boilerplate(tree: Element) -> None:
    """Remove boilerplate, and unwrap the contents of layout tables and figures."""
    for element in list(tree.iter()):
        if _is_boilerplate(element):
            replace_with_text(element, "")
    for table in list(tree.iter("table")):
        _unwrap_code(table)
    for cell in list(tree.iter("td")):
        if len(_get_text(cell)) > _MAX_CELL:
            _unwrap_layout(cell)
    for figure in list(tree.iter("figure")):
        if next(figure.iter("pre"), None) is not None:
            figure.tag = "div"  # trafilatura leaves out figures, because most are images


def _is_boilerplate(element: Element) -> bool:
    tag = get_local_name(element)
    if not tag or tag in _CONTAINERS:
        return False
    classes = set(_iterate_classes([element]))
    return bool(
        not classes.isdisjoint(_CLASSES)
        or _CLASSES_BY_TAG.get(tag) in classes
        or element.get("role") in _ROLES
        or (tag == "a" and _is_wordless(element))
        or (not classes.isdisjoint(_LINE_NUMBERS) and _NUMBERS.fullmatch(_get_text(element)))
    )


def _is_wordless(link: Element) -> bool:
    """Return whether a link within the page is a mere symbol, such as ¶ at a heading, ↩ or ^."""
    return (link.get("href") or "").startswith("#") and not any(map(str.isalnum, _get_text(link)))


def _unwrap_code(table: Element) -> None:
    """Replace a table of line numbers and code with the code.

    Such a table has all lines of code in one cell, or one line in each row.
    """
    is_in_code = any(get_local_name(parent) in _CODE for parent in table.iterancestors())
    rows = [list(row) for row in table.iter("tr")]
    code_cells = [cell for row in rows for cell in row if not _NUMBERS.fullmatch(_get_text(cell))]
    if is_in_code or _CODE_LINES & {name for row in rows for name in _iterate_classes(row[-1:])}:
        text = "\n".join(_get_text(cell) for row in rows for cell in row[-1:])
    elif code_cells and len(code_cells) <= len(rows) and all(map(_is_preformatted, code_cells)):
        text = "\n".join(_get_text(pre) for cell in code_cells for pre in cell.iter("pre"))
    else:
        return
    code = table.makeelement("span" if is_in_code else "pre")
    code.text = text
    code.tail = table.tail
    table.getparent().replace(table, code)


def _unwrap_layout(cell: Element) -> None:
    """Replace the table around a cell with blocks, as trafilatura splits sentences in a cell."""
    table = next(cell.iterancestors("table"), None)
    if table is None:
        return
    own = [part for part in table.iter(*_TABLE_PARTS) if next(part.iterancestors("table")) is table]
    for part in (table, *own):
        part.tag = "div"


def _is_preformatted(cell: Element) -> bool:
    """Return whether all text in a cell is preformatted."""
    return _get_text(cell).split() == "".join(_get_text(pre) for pre in cell.iter("pre")).split()


def _iterate_classes(elements: list[Element]) -> Iterator[str]:
    for element in elements:
        yield from (element.get("class") or "").split()


def _get_text(element: Element) -> str:
    return "".join(element.itertext())
