r"""Halves of characters in JSON, as programs write them that cut texts where UTF-16 does.

JavaScript's `text.slice(0, n)` may cut an emoji in two, and `JSON.stringify` then writes
`"\ud83d"`: no text at all, which the parser refuses without saying why. U+FFFD is put in its place,
as by JavaScript's own `toWellFormed`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_BEGINNING: Final = rb"\ud"
"""What an escaped half of a character begins with, in lower case, and whole ones too."""
# Escapes one after another, so that none is taken for what stands behind an escaped backslash.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def may_hold_halves(pieces: Iterable[bytes | bytearray]) -> bool:
    """Whether JSON in pieces may hold escaped halves of characters."""
    tail = b""
    for piece in pieces:
        if _BEGINNING in (tail + piece).lower():
            return True
        tail = bytes(piece[-len(_BEGINNING) :])
    return False


def well_formed(body: bytes) -> bytes:
    """The same JSON, with U+FFFD in place of each half of a character."""
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], body)
