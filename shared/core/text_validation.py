"""Validation of texts that others will read: they may not contain invisible characters."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pydantic_core import PydanticCustomError

_BREAKS: Final = frozenset("\t\n\r")
_JOINERS: Final = frozenset("\u200c\u200d\u061c\u200e\u200f")
"""The invisible characters that scripts and emoji need.

All other characters of their category are rejected. Characters that change the direction of text
can make code look like other code (Boucher, Anderson, "Trojan Source: Invisible Vulnerabilities",
USENIX Security 2023), and models read what people do not see."""
_VARIANTS: Final = re.compile("[\ufe00-\ufe0f]{2}|[\U000e0000-\U000e0fff]")
"""This matches variation selectors that can hide a text: several in a row, or rare ones."""
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""The letters and symbols that look like white space."""


def validation_error(message: str) -> PydanticCustomError:
    """Make the error of a validator, with this message and without the value."""
    return PydanticCustomError("wrong", message)


def validate_line(text: str) -> str:
    """Return a line of text without the white space around it.

    Raises:
        PydanticCustomError: The text has several lines, invisible characters, or nothing visible.
    """
    line = text.strip()
    if any(map(_is_control, line)) or _VARIANTS.search(line):
        raise validation_error("must be one line without control or invisible characters")
    return _require_visible(line)


def validate_prose(text: str) -> str:
    """Return a valid text unchanged.

    Raises:
        PydanticCustomError: The text has invisible characters other than line breaks and tabs,
            or nothing visible.
    """
    has_controls = any(_is_control(character) for character in text if character not in _BREAKS)
    if has_controls or _VARIANTS.search(text):
        raise validation_error(
            "must contain no control characters except line breaks and tabs, and no invisible"
            " characters: remove zero-width spaces and terminal colours such as \\u001b[31m"
        )
    return _require_visible(text)


def is_blank(text: str) -> bool:
    """Return whether a text contains nothing visible."""
    characters = (character for character in text if character not in _BLANKS)
    return not any(unicodedata.category(character)[0] in "LMNPS" for character in characters)


def _require_visible(text: str) -> str:
    if is_blank(text):
        raise validation_error("must contain more than white space")
    return text


def _is_control(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and character not in _JOINERS)
