"""Removes what a page contains that is not read: images, fonts, scripts, styles.

A page that was saved as one file contains everything that it shows, and little of that is text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPE: Final = rb"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*"
_DATA_URL: Final = re.compile(
    b"|".join(
        [
            rb"(?<=[=(]\")%s,[^\"]{400,}+" % _TYPE,
            rb"(?<=[=(]')%s,[^']{400,}+" % _TYPE,
            rb"%s;base64,[A-Za-z0-9+/=%%\s]{400,}+" % _TYPE,
            rb"%s,[^\s\"'<>()&]{400,}+" % _TYPE,
        ]
    )
)
"""An image or a font as a data URL (RFC 2397): quoted, in Base64, or percent-encoded."""
_TAG: Final = re.compile(
    rb"<!--(?!-?>)|(?P<comment_end>-->)"
    rb"|<(?P<end>/?)(?P<name>script|style|svg)\b[^<>]*+(?<!/)>",
    re.IGNORECASE,
)
_READ_SCRIPT: Final = re.compile(rb"math/|ld\+json", re.IGNORECASE)
"""What the tag of a script with formulas or metadata contains."""


def remove_data_urls(html: bytes) -> bytes:
    """Empty the long data URLs of a page. The time is linear in its size."""
    return _DATA_URL.sub(b"data:,", html)


def remove_unread_elements(html: bytes) -> bytes:
    """Remove scripts, styles and drawings. What is never closed is kept: it may be text."""
    kept, kept_until = [], 0
    for opening, end in _find_elements(html):
        if opening["name"] and not _READ_SCRIPT.search(opening[0]):
            kept.append(html[kept_until : opening.start()])
            kept_until = end
    return b"".join([*kept, html[kept_until:]])


def _find_elements(html: bytes) -> Iterator[tuple[re.Match[bytes], int]]:
    """Yield the beginnings and ends of comments, scripts, styles and drawings, without inner ones.

    Scripts and comments may contain tags, and drawings may contain drawings.
    """
    opening, depth = None, 0
    for tag in _TAG.finditer(html):
        is_end = bool(tag["end"] or tag["comment_end"])
        if opening is None:
            opening, depth = (None, 0) if is_end else (tag, 1)
        elif _get_name(tag) == _get_name(opening):
            depth += -1 if is_end else _get_name(tag) == b"svg"
            if depth == 0:
                yield opening, tag.end()
                opening = None


def _get_name(tag: re.Match[bytes]) -> bytes:
    return (tag["name"] or b"").lower()
