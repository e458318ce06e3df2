"""Replaces formulas with TeX, such as `$x^{2}$`, which people and models read and type.

Web pages contain formulas as MathML, usually with the TeX from which it was made. KaTeX, MathJax
and MediaWiki add a second form for the screen, which is removed with the MathML.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.html.blocks import get_local_name
from functions.jobs.ingest.readers.html.inline_markup import replace_with_text

if TYPE_CHECKING:
    from functions.jobs.ingest.readers.html.blocks import Element

_CONTAINERS: Final = frozenset({"katex", "mwe-math-element"})
"""The classes of elements that contain both forms of a formula."""
_CONTAINER_TAG: Final = "mjx-container"
_TEX_ENCODINGS: Final = frozenset({"application/x-tex", "latex", "tex"})
_TEX_SCRIPT: Final = "math/tex"
"""The type of the `script` in which MathJax 2 keeps the TeX of a formula."""
_STYLE: Final = re.compile(r"\{\\(?:display|text|script)style\s*(.*)\}|\\displaystyle\s*(.*)")
"""A formula in a certain style, as MediaWiki writes it: `{\\displaystyle x^{2}}`."""
_TEX_MARKS: Final = frozenset("\\^_{}$")
_PATTERNS: Final = {
    "msup": "{}^{{{}}}",
    "msub": "{}_{{{}}}",
    "msubsup": "{}_{{{}}}^{{{}}}",
    "mover": r"\overset{{{1}}}{{{0}}}",
    "munder": r"\underset{{{1}}}{{{0}}}",
    "munderover": r"\underset{{{1}}}{{\overset{{{2}}}{{{0}}}}}",
    "mfrac": r"\frac{{{}}}{{{}}}",
    "mroot": r"\sqrt[{1}]{{{0}}}",
}
"""TeX for the MathML elements with a fixed number of children."""
_LIMITS: Final = {"mover": "msup", "munder": "msub", "munderover": "msubsup"}
"""The elements whose TeX the limits of a sum or of a function such as `lim` have."""
_SCRIPTS: Final = frozenset({"msup", "msub", "msubsup"})
_ROWS: Final = frozenset(
    ["math", "semantics", "mrow", "mstyle", "mpadded", "mtable", "mtr", "mlabeledtr", "mtd"]
)
_TOKENS: Final = frozenset({"mi", "mn", "mo", "ms", "mspace", "mtext"})
_ANNOTATIONS: Final = frozenset({"annotation", "annotation-xml"})
_SPACE: Final = re.compile(r"\s+")
_SEPARATORS: Final = {"mtr": "; ", "mlabeledtr": "; ", "mtd": ", "}
_INVISIBLE: Final = re.compile("[\u2061-\u2064]")
"""Operators that are only heard, such as the one between a function and its argument."""
_TEXT: Final = re.compile(r"\\text\{([^{}]*)\}")


class _UnsupportedError(Exception):
    """A formula contains MathML that this module does not convert."""


def replace_formulas(tree: Element) -> None:
    """Replace each formula with its TeX in dollar signs, or with plain text if it is as simple.

    Formulas that cannot be converted are replaced with their description or their words.
    """
    elements = list(tree.iter())
    formulas = [element for element in elements if get_local_name(element) == "math"]
    containers = {formula: _find_container(formula) for formula in formulas}
    formula_counts = Counter(containers.values())
    for formula, container in containers.items():
        is_alone = formula_counts[container] == 1
        replace_with_text(container if is_alone else formula, _write(formula))
    for element in elements:
        is_script = get_local_name(element) == "script"
        if is_script and (element.get("type") or "").startswith(_TEX_SCRIPT):
            replace_with_text(element, _quote(element.text or ""))


def _find_container(formula: Element) -> Element:
    """Return the innermost element that contains both forms of a formula, or else the formula."""
    for parent in formula.iterancestors():
        classes = (parent.get("class") or "").split()
        if get_local_name(parent) == _CONTAINER_TAG or not _CONTAINERS.isdisjoint(classes):
            return parent
    return formula


def _write(formula: Element) -> str:
    """Return the text with which to replace a formula."""
    try:
        tex = _read_tex(formula) or _convert(formula)
    except _UnsupportedError:
        tex = ""
    return _quote(tex) or " ".join((formula.get("alttext") or _read_words(formula)).split())


def _read_tex(formula: Element) -> str:
    for element in formula.iter():
        encoding = (element.get("encoding") or "").lower()
        if get_local_name(element) == "annotation" and encoding in _TEX_ENCODINGS:
            return element.text or ""
    # Books describe formulas in words, too.
    description = formula.get("alttext") or ""
    return "" if _TEX_MARKS.isdisjoint(description) else description


def _convert(element: Element) -> str:
    """Convert MathML to TeX, as far as search and reading need it.

    Raises:
        _UnsupportedError: The TeX would have another meaning.
    """
    tag = get_local_name(element)
    if tag in _TOKENS:
        return _convert_token(tag, "".join(element.itertext()))
    children = [child for child in element if get_local_name(child) not in {"", *_ANNOTATIONS}]
    parts = [_convert(child) for child in children]
    if tag in _PATTERNS:
        return _fill_pattern(element, children, [part.strip() for part in parts])
    if tag == "msqrt":
        return rf"\sqrt{{{''.join(parts).strip()}}}"
    if tag == "mfenced":
        return _fence(element, parts)
    text = "".join(element.xpath("text()")).strip()
    if tag not in _ROWS or (children and text):
        raise _UnsupportedError
    parts.append(_convert_token(tag, text))
    is_last = element.getnext() is None
    return "".join(parts) + ("" if is_last else _SEPARATORS.get(tag, ""))


def _convert_token(tag: str, text: str) -> str:
    """Return the TeX of a name, number, operator or text, with spaces around words."""
    if not _TEX_MARKS.isdisjoint(text):
        raise _UnsupportedError
    if tag == "mtext":
        words = _SPACE.sub(" ", text.strip(" \t\r\n"))  # other spaces at the ends are shown
        return rf" \text{{{words}}} "
    text = _INVISIBLE.sub("", text.strip())
    is_word = len(text) > 1 and text.isalpha()
    return f" {text} " if is_word or tag == "mspace" else text


def _fill_pattern(element: Element, children: list[Element], parts: list[str]) -> str:
    """Return the TeX of an element with a fixed number of children."""
    tag = get_local_name(element)
    count = 3 if tag in {"msubsup", "munderover"} else 2
    if len(parts) != count or "linethickness" in element.attrib:
        raise _UnsupportedError  # a fraction without a line is a binomial coefficient
    base, *scripts = (get_local_name(_unwrap(child)) for child in children)
    is_operator = base == "mo" or (base == "mi" and len(parts[0]) > 1)
    if tag in _LIMITS and is_operator and "mo" not in scripts:  # a lone `mo` is an accent
        tag = _LIMITS[tag]
    if tag in _SCRIPTS and (base not in _TOKENS or not parts[0]):
        parts[0] = f"{{{parts[0]}}}"
    return _PATTERNS[tag].format(*parts)


def _unwrap(element: Element) -> Element:
    """Return the only element in a row, or in a row within a row."""
    while get_local_name(element) in _ROWS and len(element) == 1:
        element = element[0]
    return element


def _fence(element: Element, parts: list[str]) -> str:
    opening, closing = element.get("open", "("), element.get("close", ")")
    separators = "".join(element.get("separators", ",").split())
    if not _TEX_MARKS.isdisjoint(opening + closing + separators):
        raise _UnsupportedError
    # The last separator is repeated.
    pairs = zip_longest(parts[1:], separators[: len(parts) - 1], fillvalue=separators[-1:])
    return "".join([opening, *parts[:1], *(f"{mark}{part}" for part, mark in pairs), closing])


def _read_words(formula: Element) -> str:
    is_annotation = "starts-with(local-name(), 'annotation')"
    return " ".join(formula.xpath(f".//text()[not(ancestor::*[{is_annotation}])]"))


def _quote(tex: str) -> str:
    """Return TeX in dollar signs, or plain text if it is as simple."""
    tex = " ".join(tex.split())
    if style := _STYLE.fullmatch(tex):
        tex = (style[1] or style[2] or "").strip()
    plain = " ".join(_TEXT.sub(r" \1 ", tex).split())
    return plain if _TEX_MARKS.isdisjoint(plain) else f"${tex}$"
