"""Replaces formulas with TeX, such as `$x^{2}$`, which people and models read and type.

Web pages contain formulas as MathML, usually with the TeX from which it was made. KaTeX, MathJax
and MediaWiki add a second form for the screen, which is removed with the MathML.
"""

from __future__ import annotations

import re
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
    "mover": "{}^{{{}}}",
    "msub": "{}_{{{}}}",
    "munder": "{}_{{{}}}",
    "msubsup": "{}_{{{}}}^{{{}}}",
    "munderover": "{}_{{{}}}^{{{}}}",
    "mfrac": r"\frac{{{}}}{{{}}}",
}
"""TeX for the MathML elements with a fixed number of children."""
_SEPARATORS: Final = {"mtr": "; ", "mlabeledtr": "; ", "mtd": ", "}


def replace_formulas(tree: Element) -> None:
    """Replace each formula with its TeX in dollar signs, or with plain text if it is as simple."""
    for element in list(tree.iter()):
        tag = get_local_name(element)
        if tag == "math":
            tex = _read_tex(element) or _convert(element) or element.get("alttext") or ""
            _replace(_find_container(element), tex)
        elif tag == "script" and (element.get("type") or "").startswith(_TEX_SCRIPT):
            _replace(element, element.text or "")


def _find_container(formula: Element) -> Element:
    """Return the outermost element that contains only this formula, in both of its forms."""
    for parent in formula.iterancestors():
        classes = (parent.get("class") or "").split()
        if get_local_name(parent) == _CONTAINER_TAG or not _CONTAINERS.isdisjoint(classes):
            return parent
    return formula


def _read_tex(formula: Element) -> str:
    """Return the TeX that a formula declares, or ""."""
    for element in formula.iter():
        encoding = (element.get("encoding") or "").lower()
        if get_local_name(element) == "annotation" and encoding in _TEX_ENCODINGS:
            return element.text or ""
    # Books describe formulas in words, too.
    description = formula.get("alttext") or ""
    return "" if _TEX_MARKS.isdisjoint(description) else description


def _convert(element: Element) -> str:
    """Convert MathML to TeX, as far as search and reading need it."""
    tag = get_local_name(element)
    if tag in {"annotation", "annotation-xml"}:
        return ""
    children = [child for child in element if get_local_name(child)]
    parts = [_convert(child) for child in children]
    pattern = _PATTERNS.get(tag)
    if pattern and pattern.count("{}") == len(parts):
        return pattern.format(*parts)
    text = "".join([(element.text or "").strip(), *parts])
    if tag == "msqrt":
        return rf"\sqrt{{{text}}}"
    is_last = element.getnext() is None
    return text + ("" if is_last else _SEPARATORS.get(tag, ""))


def _replace(element: Element, tex: str) -> None:
    tex = " ".join(tex.split())
    if style := _STYLE.fullmatch(tex):
        tex = (style[1] or style[2] or "").strip()
    is_plain = _TEX_MARKS.isdisjoint(tex)
    replace_with_text(element, tex if is_plain else f"${tex}$")
