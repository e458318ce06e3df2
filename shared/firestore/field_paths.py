"""The paths of fields, such as `card.title` or `` indexed.terms.`e-mail` ``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from google.cloud.firestore_v1.field_path import FieldPath

_SIMPLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def join_path(*names: str) -> str:
    """Return the path of a field from the names on the way to it, quoted where necessary."""
    return ".".join(name if _SIMPLE.fullmatch(name) else _quote(name) for name in names)


def split_path(path: str) -> tuple[str, ...]:
    """Return the names on the way to a field."""
    return tuple(path.split(".")) if "`" not in path else _split_quoted(path)


def _quote(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


@lru_cache(maxsize=1_000)
def _split_quoted(path: str) -> tuple[str, ...]:
    return tuple(FieldPath.from_api_repr(path).parts)
