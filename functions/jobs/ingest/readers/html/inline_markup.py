"""Replaces superscripts, quotations and line breaks in code, whose meaning plain text would lose.

`10<sup>6</sup>` becomes `10^6`, as people and models type the number in a search. The character ⁶
would be lost, because search and many other programs normalize it to 6 (NFKC).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.html.blocks import get_local_name, is_block

if TYPE_CHECKING:
    from functions.jobs.ingest.readers.html.blocks import Element

_TERM: Final = r"[\dijkmnpqtxyzNT]"
"""A digit or a common variable. Other superscript letters usually belong to words: `1st`."""
_EXPONENT: Final = re.compile(rf"[-−+]?{_TERM}(?:[-−+/.,]?{_TERM})*[-−+]?")  # noqa: RUF001 - minus
_BASE: Final = re.compile(r"(?:\d|(?<![^\W\d_])[^\W\d_]{1,3}|[)\]}])\Z")
"""What may have an exponent: a number, a variable, a unit or function, a term in brackets."""
_LINKED_MARK: Final = re.compile(r"\W*(?:\d{1,4}|[ivx]{1,6}|[a-z])\W*|\W{1,5}")
"""A note mark that links to the note."""
_UNLINKED_MARK: Final = re.compile(r"[(\[]?(?:\d{1,3}(?:\s*[-–,]\s*\d{1,3})*|[*†‡§]{1,3})[)\]]?")  # noqa: RUF001 - a dash
_BEFORE_MARK: Final = re.compile(r"(?:[^\W\d_]{4}|[.,;:!?…\"'”’»)\]])\s?\Z")  # noqa: RUF001 - quotation marks
"""The text before a note mark without a link: punctuation, or a word that is too long to be a unit
or a function with an exponent."""
_CONTEXT: Final = 8
"""How many characters before a superscript are examined to tell exponents from note marks."""
_QUOTATION_MARKS: Final = "\"'“”„‘’«»‹›「」『』"  # noqa: RUF001 - these are meant


def replace_inline_markup(tree: Element) -> None:
    """Replace elements with characters of the same meaning, and remove note marks."""
    for element in list(tree.iter()):
        match get_local_name(element):
            case "sup":
                _replace_superscript(element)
            case "q":
                _replace_quotation(element)
            case "code" if _is_in_sentence(element):
                _join_lines(element)
            case "br" if _is_in_code(element):
                is_before_line_break = (element.tail or "").startswith("\n")
                replace_with_text(element, "" if is_before_line_break else "\n")


def _replace_superscript(element: Element) -> None:
    text = " ".join("".join(element.itertext()).split())
    before = _get_text_before(element)[-_CONTEXT:]
    if _is_note_mark(element, text, before):
        replace_with_text(element, "")
    elif _EXPONENT.fullmatch(text) and _BASE.search(before):
        replace_with_text(element, f"^{text}")


def _is_note_mark(element: Element, text: str, before: str) -> bool:
    """Return whether a superscript leads to a note, by its text and the text before it."""
    if _is_link(element, text):
        return bool(_LINKED_MARK.fullmatch(text))
    if not _UNLINKED_MARK.fullmatch(text) or not before:
        return False
    is_exponent = _EXPONENT.fullmatch(text) and _BASE.search(before)
    return not is_exponent and bool(_BEFORE_MARK.search(before))


def _is_link(element: Element, text: str) -> bool:
    """Return whether a superscript contains a link, or is the whole content of a link."""
    parent = element.getparent()
    if (
        parent is not None
        and get_local_name(parent) == "a"
        and "".join(parent.itertext()).strip() == text
    ):
        return True
    return any(get_local_name(node) == "a" for node in element.iter())


def _get_text_before(element: Element) -> str:
    """Return the end of the text that precedes an element in its paragraph."""
    while not is_block(element) and (parent := element.getparent()) is not None:
        previous = element.getprevious()
        if previous is not None:
            return previous.tail or ("" if is_block(previous) else _get_text(previous))
        if parent.text:
            return str(parent.text)
        element = parent
    return ""


def _get_text(element: Element) -> str:
    return "".join(element.itertext()) if get_local_name(element) else ""


def _replace_quotation(element: Element) -> None:
    """Put a quotation in the marks that a browser shows, unless it has its own."""
    text = "".join(element.itertext()).strip()
    if text and text[0] not in _QUOTATION_MARKS:
        element.text = f"“{element.text or ''}"
        if len(element):
            element[-1].tail = f"{element[-1].tail or ''}”"
        else:
            element.text += "”"
    element.tag = "span"


def _is_in_sentence(code: Element) -> bool:
    """Return whether code is part of a sentence, where line breaks have no meaning."""
    has_lines = any(get_local_name(node) == "br" for node in code.iter())
    is_nested = any(get_local_name(parent) == "pre" for parent in code.iterancestors())
    words = _get_text_before(code) + (code.tail or "")
    return not has_lines and not is_nested and bool(words.strip())


def _join_lines(code: Element) -> None:
    for node in code.iter():
        node.text = node.text and node.text.replace("\n", " ")
        if node is not code:
            node.tail = node.tail and node.tail.replace("\n", " ")


def _is_in_code(element: Element) -> bool:
    return any(get_local_name(parent) in {"pre", "code"} for parent in element.iterancestors())


def replace_with_text(element: Element, text: str) -> None:
    """Turn an element into a `span` that contains only the given text."""
    element.clear(keep_tail=True)
    element.tag = "span"
    element.text = text
