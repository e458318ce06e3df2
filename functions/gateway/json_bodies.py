r"""What is looked at in a body before it is parsed: halves of characters, and how many values.

JavaScript's `text.slice(0, n)` may cut an emoji in two, and `JSON.stringify` then writes
`"\ud83d"`: no text at all, which the parser refuses without saying why. U+FFFD is put in its place,
as by JavaScript's own `toWellFormed`.

A long text is one value. Millions of values in the same bytes take a thousand times as long to
parse and to check, and a hundred times the memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST: Final = 5
"""Bytes of that which may end a piece, its last one apart."""
_HALF: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_LOST: Final = rb"\ufffd"
# A text that never ends, as a client sends it that leaves, ends with the body: tried once, not anew
# from each quotation mark in it.
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def may_hold_halves(pieces: Iterable[bytes | bytearray]) -> bool:
    """Whether JSON in pieces holds escaped halves of characters, or whole ones of two halves."""
    tail = b""
    for piece in pieces:
        if _SURROGATE.search(tail + piece):
            return True
        tail = bytes(piece[-_LONGEST:])
    return False


def well_formed(body: bytes) -> bytes:
    """The same JSON, with U+FFFD in place of each half of a character."""
    return _HALF.sub(_mended, body)


def _mended(half: re.Match[bytes]) -> bytes:
    """Leave alone what is no escape, since its backslash is escaped itself."""
    first = half.start()
    while first and half.string[first - 1 : first] == b"\\":
        first -= 1
    return half[0] if (half.start() - first) % 2 else _LOST


def values_in(body: bytes) -> int:
    """About how many lists, objects and values JSON holds."""
    rest = _TEXT.sub(b"", body)
    return sum(map(rest.count, (b"[", b"{", b",")))
