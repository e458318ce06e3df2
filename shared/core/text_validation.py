"""Validates texts that other people or models will read: no invisible characters."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pydantic_core import PydanticCustomError

_BREAKS: Final = frozenset("\t\n\r")
_JOINERS: Final = frozenset("\u200c\u200d\u061c\u200e\u200f")
"""The invisible format characters that scripts and emoji need.

All other format characters (Unicode category Cf) are rejected. Those that change the direction of
text can make code look like other code (Boucher, Anderson, "Trojan Source: Invisible
Vulnerabilities", USENIX Security 2023), and models read what people do not see."""
_VARIANTS: Final = re.compile("[\ufe00-\ufe0f]{2}|[\U000e0000-\U000e0fff]")
"""Variation selectors that can encode a hidden text: several in a row, or rare ones."""
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that look like white space."""


def make_validation_error(message: str) -> PydanticCustomError:
    """Make a validation error with this message. It does not quote the invalid value."""
    return PydanticCustomError("wrong", message)


def validate_line(text: str) -> str:
    """Strip a text, and check that it is one visible line.

    Raises:
        PydanticCustomError: The text has several lines, invisible characters, or nothing visible.
    """
    line = text.strip()
    if any(map(_is_control, line)) or _VARIANTS.search(line):
        raise make_validation_error("must be one line without control or invisible characters")
    return _require_visible(line)


def validate_prose(text: str) -> str:
    """Check a text of any number of lines, and return it unchanged.

    Raises:
        PydanticCustomError: The text has invisible characters other than line breaks and tabs,
            or nothing visible.
    """
    has_controls = any(_is_control(character) for character in text if character not in _BREAKS)
    if has_controls or _VARIANTS.search(text):
        raise make_validation_error(
            "must contain no control characters except line breaks and tabs, and no invisible"
            " characters: remove zero-width spaces and terminal colours such as \\u001b[31m"
        )
    return _require_visible(text)


def remove_invisible(text: str) -> str:
    r"""Remove the characters that `validate_prose` rejects. All line breaks become `\n`."""
    lines = "\n".join(text.splitlines())
    kept = (character for character in lines if character in _BREAKS or not _is_control(character))
    return _VARIANTS.sub("", "".join(kept))


def is_blank(text: str) -> bool:
    """Return whether a text contains nothing visible."""
    characters = (character for character in text if character not in _BLANKS)
    return not any(unicodedata.category(character)[0] in "LMNPS" for character in characters)


def _require_visible(text: str) -> str:
    if is_blank(text):
        raise make_validation_error("must not be blank")
    return text


def _is_control(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and character not in _JOINERS)
