"""Removes boilerplate inside web articles: edit links, line numbers, subscription boxes.

trafilatura finds the article and leaves out what surrounds it. Before that, this module removes
what well-known systems such as MediaWiki and WordPress insert into the article.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.html.blocks import get_local_name, is_block, read_blocks
from functions.jobs.ingest.readers.html.inline_markup import replace_with_text
from functions.jobs.ingest.readers.html.lists import keep_lists

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
        # MathJax 2, which draws a formula next to its TeX
        *("MathJax", "MathJax_CHTML", "MathJax_Display", "MathJax_Preview", "MathJax_SVG"),
        # Note marks
        *("footnote-anchor", "footnote-number", "footnote-ref", "footnote-reference"),
    ]
)
_CLASSES_BY_TAG: Final = {"sup": "reference", "ol": "references", "div": "toc"}
"""Classes that are boilerplate on one kind of element only."""
_CONTAINERS: Final = frozenset({"html", "body", "main", "article"})
"""Elements that may contain the article are kept, whatever their classes are."""
_ROLES: Final = frozenset({"doc-backlink", "doc-noteref"})
"""The ARIA roles of note marks, and of the links from notes back to the text."""
_LINE_NUMBERS: Final = frozenset(
    [
        *("blob-num", "gutter", "hljs-ln-numbers", "lineno", "linenodiv", "linenos", "linenumber"),
        *("line-number", "line-numbers", "line-numbers-rows", "ln", "lnt", "rouge-gutter"),
        "react-syntax-highlighter-line-number",
    ]
)
"""The classes of elements with line numbers. Some programs give the code the same classes."""
_NUMBERS: Final = re.compile(r"[\d\s]*")
"""Matches a text without words: line numbers, or nothing."""
_HIDDEN: Final = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE
)
"""The value of `style` by which an element is invisible."""
_NO_PROSE: Final = frozenset({"a", "head", "nav", "noscript", "script", "style", "template"})
"""Elements whose text does not count as prose."""
_CODE_LINES: Final = frozenset({"blob-code", "hljs-ln-code"})
"""The classes of table cells with a line of code, on GitHub and by highlight.js."""
_CODE: Final = frozenset({"pre", "code"})
_MIN_LAYOUT_CELL: Final = 500
"""Old pages and newsletters use tables for their layout. A cell with the article has at least this
many characters."""
_MIN_LOOSE_TEXT: Final = 20
"""Text between blocks becomes a paragraph if it has at least this many characters outside links.
"""
_TABLE_PARTS: Final = ("thead", "tbody", "tfoot", "tr", "th", "td")


def remove_boilerplate(tree: Element) -> None:
    """Remove boilerplate, and unwrap the contents of layout tables and figures."""
    for root in list(tree.iter("template")):
        if "shadowrootmode" in root.attrib:
            root.tag = "div"  # a shadow root, which a browser shows, as it was saved
    _remove_hidden(tree)
    for element in list(tree.iter()):
        if _is_boilerplate(element):
            replace_with_text(element, "")
    for table in list(tree.iter("table")):
        _unwrap_code(table)
    for table in list(tree.iter("table")):
        _prepare_table(table)
    _flatten_code(tree)
    keep_lists(tree)
    _mark_paragraphs(tree)
    for figure in list(tree.iter("figure")):
        if next(figure.iter("pre"), None) is not None:
            figure.tag = "div"  # trafilatura leaves out figures, because most are images


def _remove_hidden(tree: Element) -> None:
    """Remove hidden elements, or show them if they contain at least half of the page's prose.

    Some pages hide the article until a script shows it, or its sections until a reader opens them.
    """
    hidden = list(_iterate_hidden(tree))
    is_content = 2 * sum(map(_count_prose, hidden)) >= _count_prose(tree)
    for element in hidden:
        if is_content:
            element.attrib.pop("hidden", None)
            element.attrib.pop("style", None)  # trafilatura leaves out invisible elements
        else:
            replace_with_text(element, "")


def _iterate_hidden(tree: Element) -> Iterator[Element]:
    """Yield the hidden elements that are not within other hidden elements."""
    pending = [tree]
    while pending:
        element = pending.pop()
        if _is_hidden(element):
            yield element
        else:
            pending.extend(element)


def _count_prose(element: Element) -> int:
    """Count the characters outside links, menus and scripts."""
    blocks = read_blocks(element, lambda tag, _: tag in _NO_PROSE)
    return sum(len(block.text) for block in blocks)


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


def _is_hidden(element: Element) -> bool:
    """Return whether a browser does not show an element, by its attributes.

    `hidden="until-found"` marks a collapsed section, which is shown when a search finds its text.
    """
    is_marked = element.get("hidden", "until-found") != "until-found"
    return is_marked or bool(_HIDDEN.search(element.get("style") or ""))


def _is_wordless(link: Element) -> bool:
    """Return whether a link within the page is a mere symbol, such as ¶ at a heading, ↩ or ^."""
    return (link.get("href") or "").startswith("#") and not any(map(str.isalnum, _get_text(link)))


def _unwrap_code(table: Element) -> None:
    """Replace a table of line numbers and code with the code.

    Such a table has all lines of code in one cell, or one line in each row.
    """
    is_in_code = any(get_local_name(parent) in _CODE for parent in table.iterancestors())
    rows = [list(row) for row in table.iter("tr")]
    last_cells = [row[-1] for row in rows if row]
    code_cells = [cell for row in rows for cell in row if not _NUMBERS.fullmatch(_get_text(cell))]
    if is_in_code or not _CODE_LINES.isdisjoint(_iterate_classes(last_cells)):
        text = "\n".join(map(_get_text, last_cells))
    elif code_cells and len(code_cells) <= len(rows) and all(map(_is_preformatted, code_cells)):
        text = "\n".join(_get_text(pre) for cell in code_cells for pre in cell.iter("pre"))
    else:
        return
    code = table.makeelement("span" if is_in_code else "pre")
    code.text = text
    code.tail = table.tail
    table.getparent().replace(table, code)


def _flatten_code(tree: Element) -> None:
    """Put preformatted text into one `code` element. Otherwise, trafilatura may join its lines.

    From a table, it would leave that element out.
    """
    for pre in list(tree.iter("pre")):
        is_in_table = next(pre.iterancestors("table"), None) is not None
        if is_in_table or next(pre.iter("img", "table"), None) is not None:
            continue
        for line in reversed(list(pre.iter("div", "p", "li"))):
            if not _get_text(line).endswith("\n"):
                line.tail = "\n" + (line.tail or "").removeprefix("\n")
        code = pre.makeelement("code")
        code.text = _get_text(pre)
        pre.clear(keep_tail=True)
        pre.append(code)


def _prepare_table(table: Element) -> None:
    """Replace a layout table with blocks, and put each cell of any other table on one line.

    trafilatura splits sentences in a layout table, and drops lists in cells.
    """
    own = [part for part in table.iter(*_TABLE_PARTS) if next(part.iterancestors("table")) is table]
    rows = [list(row.iterchildren("td", "th")) for row in own if row.tag == "tr"]
    if _is_layout(table, rows):
        for part in (table, *own):
            part.tag = "div"
        return
    for cell in (cell for row in rows for cell in row):
        if next(cell.iter("pre", "table"), None) is None:
            _put_on_one_line(cell)


def _is_layout(table: Element, rows: list[list[Element]]) -> bool:
    """Return whether a table arranges articles.

    Such a table has most of its text in one cell, or has one cell with text in each row.
    """
    lengths = [[length for cell in row if (length := len(_get_text(cell).strip()))] for row in rows]
    longest = max((length for row in lengths for length in row), default=0)
    if longest < _MIN_LAYOUT_CELL:
        return False
    return 2 * longest > len(_get_text(table).strip()) or all(len(row) <= 1 for row in lengths)


def _put_on_one_line(cell: Element) -> None:
    """Replace the line breaks in a cell with spaces, and separate the items of lists by commas."""
    for element in list(cell.iterdescendants()):
        if element.tag == "br":
            replace_with_text(element, " ")
        elif element.tag == "li":
            is_last = element.getnext() is None
            _turn_into_span(element, after=" " if is_last else ", ")
        elif is_block(element):
            _turn_into_span(element, after=" ")


def _turn_into_span(block: Element, after: str) -> None:
    """Turn a block into a `span` with a space before it and the text `after` behind it."""
    block.tag = "span"
    block.text = " " + (block.text or "")
    last = next(reversed(block), None)
    if last is None:
        block.text = block.text.rstrip()
    else:
        last.tail = (last.tail or "").rstrip()
    block.tail = after + (block.tail or "").lstrip()


def _mark_paragraphs(tree: Element) -> None:
    """Make paragraphs of the texts that trafilatura would otherwise join or drop."""
    for section in list(tree.iter("section")):
        if not any(is_block(element) for element in section.iterdescendants()):
            section.tag = "p"  # WeChat's editors write such paragraphs
    for container in list(tree.iter("body", "main", "article", "section", "div")):
        _wrap_loose_text(container)


def _wrap_loose_text(container: Element) -> None:
    """Put text between blocks into paragraphs.

    trafilatura would drop the words around the links in such text.
    """
    children = list(container)
    if not any(is_block(child) for child in children):
        return
    block = None
    run: list[Element] = []
    for child in [*children, None]:
        if child is not None and not is_block(child):
            run.append(child)
            continue
        _wrap_run(container, block, run)
        block, run = child, []


def _wrap_run(container: Element, block: Element | None, run: list[Element]) -> None:
    """Put a run of inline elements and text into a paragraph, if it has enough text outside links.

    Args:
        container: The element that contains the run.
        block: The block before the run, whose tail is the beginning of the run's text; None if the
            run is at the beginning of the container.
        run: The inline elements.
    """
    text = (container.text if block is None else block.tail) or ""
    loose = text + "".join(element.tail or "" for element in run)
    if len("".join(loose.split())) < _MIN_LOOSE_TEXT:
        return
    paragraph = container.makeelement("p")
    paragraph.text = text
    if block is None:
        container.text = None
        container.insert(0, paragraph)
    else:
        block.tail = None
        block.addnext(paragraph)
    for element in run:
        paragraph.append(element)


def _is_preformatted(cell: Element) -> bool:
    """Return whether all text in a cell is preformatted."""
    return _get_text(cell).split() == "".join(_get_text(pre) for pre in cell.iter("pre")).split()


def _iterate_classes(elements: list[Element]) -> Iterator[str]:
    for element in elements:
        yield from (element.get("class") or "").split()


def _get_text(element: Element) -> str:
    return "".join(element.itertext())
