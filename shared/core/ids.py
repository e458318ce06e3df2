"""Turns arbitrary names into document ids."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_LENGTH: Final = 64
"""The maximum length of an id, in characters."""
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def safe_id(name: str) -> str:
    """Turn any name into a valid Firestore document id of at most 64 characters.

    White space around the name is dropped, and every character outside `[a-zA-Z0-9_-]` becomes
    `-`. If the id would not show the whole name, a hash of the name is appended, so that different
    names have different ids. An id never ends in `_`, since Firestore reserves names such as
    `__x__`.

    Raises:
        ValueError: The name is only white space.
    """
    trimmed_name = name.strip()
    if not trimmed_name:
        raise ValueError("a name must not be blank")
    candidate = _UNSAFE.sub("-", trimmed_name)
    if candidate == trimmed_name and len(candidate) <= MAX_LENGTH and not candidate.endswith("_"):
        return candidate
    digest = hashlib.sha256(trimmed_name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{candidate[: MAX_LENGTH - 11]}-{digest}"
