"""Texts that others will read: nothing in them that is not seen, or that moves what is seen."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pydantic_core import PydanticCustomError

_BREAKS: Final = frozenset("\t\n\r")
_JOINERS: Final = frozenset("\u200c\u200d\u061c\u200e\u200f")
"""Invisible characters that scripts and emoji need. All others of their category are refused: code
can be made to look like other code with those that turn the direction of text (Boucher, Anderson,
"Trojan Source: Invisible Vulnerabilities", USENIX Security 2023), and models read what people do
not see."""
_VARIANTS: Final = re.compile("[\ufe00-\ufe0f]{2}|[\U000e0000-\U000e0fff]")
"""Selectors of a variant, one after another or beyond the usual sixteen: they can spell a text."""
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that look like white space."""


def validation_error(message: str) -> PydanticCustomError:
    """What a check of an argument raises: these very words, and nothing that was given."""
    return PydanticCustomError("wrong", message)


def validate_line(text: str) -> str:
    """A text without white space around it.

    Raises:
        PydanticCustomError: It has several lines, holds what cannot be seen, or nothing that can.
    """
    line = text.strip()
    if any(map(_is_control, line)) or _VARIANTS.search(line):
        raise validation_error("must be one line without control characters and invisible ones")
    return _seen(line)


def validate_prose(text: str) -> str:
    """A text as it is.

    Raises:
        PydanticCustomError: It holds control characters other than line breaks and tabs, or nothing
            that can be seen.
    """
    hidden = any(_is_control(each) for each in text if each not in _BREAKS)
    if hidden or _VARIANTS.search(text):
        raise validation_error(
            "must hold no control characters but line breaks and tabs, and no invisible ones: take"
            " out zero-width spaces, and colours of a terminal, such as \\u001b[31m"
        )
    return _seen(text)


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text."""
    seen = (each for each in text if each not in _BLANKS)
    return not any(unicodedata.category(each)[0] in "LMNPS" for each in seen)


def _seen(text: str) -> str:
    if is_blank(text):
        raise validation_error("must hold more than white space")
    return text


def _is_control(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and character not in _JOINERS)
