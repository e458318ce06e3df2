"""The paths of fields, such as `card.title` or `` indexed.terms.`e-mail` ``."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"`((?:[^`\\]|\\.)*)`|([^.`]+)", re.DOTALL)


def join_path(*names: str) -> str:
    """Return the path of a field from the names on the way to it, quoted where necessary."""
    return ".".join(map(quote_name, names))


def quote_name(name: str) -> str:
    """Return a name as it stands in a path."""
    if name.isidentifier() and name.isascii():
        return name
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def split_path(path: str) -> tuple[str, ...]:
    """Return the names on the way to a field."""
    if "`" not in path:
        return tuple(path.split("."))
    return tuple(
        plain or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        for quoted, plain in _NAME.findall(path)
    )
