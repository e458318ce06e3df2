"""Elements whose meaning is lost in plain text: superscripts, quotations, line breaks in code.

`10<sup>6</sup>` becomes `10^6`, which is what people and models type when they search for it. The
character ⁶ would not do, as search and many other programs normalize it to 6 (NFKC).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.blocks import is_block, local_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.blocks import Element

_VARIABLE: Final = "[ijkmnpqtxyzNT]"
"""Other letters in superscripts are mostly parts of words, such as the French `19e`."""
_EXPONENT: Final = re.compile(
    rf"[-−+]?(?:\d+|{_VARIABLE})(?:[-−+/.,]?(?:\d+|{_VARIABLE}))*[-−+]?"  # noqa: RUF001 - minus
)
_BASE: Final = re.compile(r"(?:\d|(?<![^\W\d_])[^\W\d_]{1,3}|[)\]}])\Z")
"""What may have an exponent: a number, a variable, a unit or function, a term in brackets."""
_MARK: Final = re.compile(r"\W*(?:\d{1,4}|[ivx]{1,6}|[a-z])\W*|\W{1,5}")
"""The mark of a note, if it is a link."""
_UNLINKED_MARK: Final = re.compile(r"[(\[]?(?:\d{1,3}(?:\s*[-–,]\s*\d{1,3})*|[*†‡§]{1,3})[)\]]?")  # noqa: RUF001
_BEFORE_MARK: Final = re.compile(r"(?:[^\W\d_]{4}|[.,;:!?…\"'”’»)\]])\s?\Z")  # noqa: RUF001
"""The mark of a note stands after a word or after punctuation."""
_QUOTATION_MARKS: Final = "\"'“”„‘’«»‹›「」『』"  # noqa: RUF001


def write_out_markup(tree: Element) -> None:
    """Replace elements by characters that say the same, and remove the marks of notes."""
    for element in list(tree.iter()):
        match local_name(element):
            case "sup":
                _write_out_superscript(element)
            case "q":
                _write_out_quotation(element)
            case "br" if _is_in_code(element):
                replace_by_text(element, "\n")


def _write_out_superscript(element: Element) -> None:
    text = " ".join("".join(element.itertext()).split())
    before = _text_before(element)
    if _is_note_mark(element, text, before):
        replace_by_text(element, "")
    elif _EXPONENT.fullmatch(text) and _BASE.search(before):
        replace_by_text(element, f"^{text}")


def _is_note_mark(element: Element, text: str, before: str) -> bool:
    if any(local_name(node) == "a" for node in (*element.iter(), element.getparent())):
        return bool(_MARK.fullmatch(text))
    if not _UNLINKED_MARK.fullmatch(text) or not before:
        return False
    is_exponent = _EXPONENT.fullmatch(text) and _BASE.search(before)
    return not is_exponent and bool(_BEFORE_MARK.search(before))


def _text_before(element: Element) -> str:
    """Return the text directly before an element in its paragraph, or the end of it."""
    while not is_block(element) and (parent := element.getparent()) is not None:
        previous = element.getprevious()
        if previous is not None:
            return previous.tail or "".join(_texts(previous))
        if parent.text:
            return str(parent.text)
        element = parent
    return ""


def _texts(element: Element) -> Iterator[str]:
    return element.itertext() if local_name(element) else iter(())


def _write_out_quotation(element: Element) -> None:
    text = "".join(element.itertext()).strip()
    if text and text[0] not in _QUOTATION_MARKS:
        element.text = f"“{element.text or ''}"
        if len(element):
            element[-1].tail = f"{element[-1].tail or ''}”"
        else:
            element.text += "”"
    element.tag = "span"


def _is_in_code(element: Element) -> bool:
    return any(local_name(parent) in {"pre", "code"} for parent in element.iterancestors())


def replace_by_text(element: Element, text: str) -> None:
    """Replace an element by a text. The text after it is kept."""
    parent, previous = element.getparent(), element.getprevious()
    if parent is None:
        return
    tail = element.tail or ""
    text = "" if text == "\n" and tail.startswith("\n") else text
    if previous is None:
        parent.text = f"{parent.text or ''}{text}{tail}"
    else:
        previous.tail = f"{previous.tail or ''}{text}{tail}"
    element.tail = None
    parent.remove(element)
