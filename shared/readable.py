"""Texts that others will read: nothing in them that is not seen, or that moves what is seen."""

from __future__ import annotations

import unicodedata
from typing import Final

from pydantic_core import PydanticCustomError

_BREAKS: Final = frozenset("\t\n\r")
_TURNS: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""They turn the direction of what stands between them: with them, code can be made to look like
other code. Boucher, Anderson, "Trojan Source: Invisible Vulnerabilities", USENIX Security 2023.
Scripts that are written from right to left need none of them."""
_UNSEEN: Final = range(0xE0000, 0xE01F0)
"""Letters and variants that models read and people do not see."""


def wrong(message: str) -> PydanticCustomError:
    """What a check of an argument raises: these very words, and nothing that was given."""
    return PydanticCustomError("wrong", message)


def one_line(text: str) -> str:
    """A text without white space around it.

    Raises:
        PydanticCustomError: It has several lines, holds what cannot be seen, or nothing that can.
    """
    line = text.strip()
    if any(map(_is_control, line)):
        raise wrong("must be one line without control characters")
    return _seen(line)


def prose(text: str) -> str:
    """A text as it is.

    Raises:
        PydanticCustomError: It holds control characters other than line breaks and tabs, or nothing
            that can be seen.
    """
    if any(_is_control(each) for each in text if each not in _BREAKS):
        raise wrong(
            "must hold no control characters but line breaks and tabs: take out colours of a"
            " terminal, such as \\u001b[31m"
        )
    return _seen(text)


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text."""
    return not any(unicodedata.category(each)[0] in "LMNPS" for each in text)


def _seen(text: str) -> str:
    if is_blank(text):
        raise wrong("must hold more than white space")
    return text


def _is_control(character: str) -> bool:
    hidden = character in _TURNS or ord(character) in _UNSEEN
    return hidden or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
