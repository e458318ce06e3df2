"""What a cursor into a ranking remembers: marks of the hits that were shown.

The next page is taken from the ranking as it is by then, without these: whatever comes or goes in
between, nothing is shown twice and nothing is lost.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

from pydantic import StringConstraints, TypeAdapter

_DIGITS: Final = 8
"""Hexadecimal digits of a mark: among 200 ids, two share one once in 200,000 times."""
SHOWN: Final = TypeAdapter(
    list[Annotated[str, StringConstraints(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")]]
)
"""The marks of all that was shown."""


def shown_mark(name: str) -> str:
    """What a cursor remembers of a hit."""
    return hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
