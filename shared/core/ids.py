"""Ids of at most 24 characters, since models read and repeat them.

An id is a letter for its kind and 55 bits of a hash, in base32: `fk3vq2nbx5ta`. A passage's id is
its source's id and 55 more bits. The hash is of a name that stays the same from import to import,
such as a file's path, which whoever needs it stores beside the id. Two names with the same hash
would be one document: among 100,000 sources, that has a probability of one in ten million.
"""

from __future__ import annotations

import base64
import hashlib
import re
from enum import StrEnum
from typing import Final

MAX_LENGTH: Final = 24
"""The maximum length of an id, in characters."""
_HASH_LENGTH: Final = 11
_HASH: Final = rf"[a-z2-7]{{{_HASH_LENGTH}}}"
_ID: Final = re.compile(rf"[a-z]{_HASH}")
SOURCE_ID_PATTERN: Final = rf"[a-z0-9-]{{1,{_HASH_LENGTH}}}[a-z0-9]"
"""A regular expression for the ids of sources, also of those that another program exported."""
_PASSAGE_ID: Final = re.compile(rf"({SOURCE_ID_PATTERN}){_HASH}")
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]")


class IdKind(StrEnum):
    """The first letter of an id."""

    CLUSTER = "c"
    DOCUMENT = "d"
    """A text that a user uploaded to a workspace."""
    EXTRACTION = "e"
    FILE = "f"
    """A source that is a file, as are the next ones that are records, books, pages or notes."""
    RECORD = "j"
    KINDLE_BOOK = "k"
    LINK = "l"
    NOTE = "n"
    READWISE_BOOK = "r"
    EXPORT = "x"
    """A book, page or conversation exported by another program."""


def make_id(kind: IdKind, name: str) -> str:
    """Return the id for a name, of 12 characters."""
    return f"{kind}{_hash(name)}"


def has_kind(name_id: str, *kinds: IdKind) -> bool:
    """Return whether `make_id` made an id for one of these kinds."""
    return bool(_ID.fullmatch(name_id)) and name_id[0] in kinds


def make_passage_id(source_id: str, text: str, occurrence: int = 1) -> str:
    """Return the id of a passage.

    Args:
        occurrence: Which of the source's passages with this text it is, from 1.
    """
    return source_id + _hash(text if occurrence == 1 else f"{text}\0{occurrence}")


def parse_source_id(passage_id: str) -> str:
    """Return the source's id in a passage's id. Return any other id unchanged."""
    match = _PASSAGE_ID.fullmatch(passage_id)
    return match[1] if match else passage_id


def safe_id(name: str) -> str:
    """Turn a name that people chose into an id, which stays the name itself if it is short.

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
    return f"{candidate[: MAX_LENGTH - _HASH_LENGTH - 1]}-{_hash(trimmed_name)}"


def _hash(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest).decode()[:_HASH_LENGTH].lower()
