"""Names that are safe to use as document ids."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_LENGTH: Final = 64
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def safe_id(name: str) -> str:
    """Turn any name into a legal Firestore document id of at most 64 characters.

    White space around the name is dropped and every character outside `[a-zA-Z0-9_-]` becomes
    `-`. Where that, or the length, loses information, a hash of the name is appended, so that two
    names do not share an id.

    An id never ends in `_`, which keeps clear of Firestore's own names (`__x__`).

    Raises:
        ValueError: The name holds nothing but white space.
    """
    trimmed = name.strip()
    if not trimmed:
        message = "a name must hold more than white space"
        raise ValueError(message)
    safe = _UNSAFE.sub("-", trimmed)
    if safe == trimmed and len(safe) <= MAX_LENGTH and not safe.endswith("_"):
        return safe
    digest = hashlib.sha256(trimmed.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{safe[: MAX_LENGTH - 11]}-{digest}"
