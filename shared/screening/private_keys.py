"""Private keys: a header, and a key after it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shared.screening.placeholders import is_placeholder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEADER: Final = re.compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d"
)
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{32,}+")
_NEAR: Final = 12
"""How many lines PGP and PuTTY may put between the header and the key."""
_SEEN: Final = 400
"""How many characters of a line tell whether a key is there."""


def private_keys_in(lines: Sequence[str]) -> Iterator[int]:
    """The indexes of lines where a private key begins.

    A header without a key, as in code that looks for one, gives nothing away.
    """
    for index, line in enumerate(lines):
        for header in _HEADER.finditer(line):
            after = [line[header.end() : header.end() + _SEEN]]
            after += [other[:_SEEN] for other in lines[index + 1 : index + 1 + _NEAR]]
            if any(not is_placeholder(key[0]) for text in after for key in _KEY.finditer(text)):
                yield index
                break
