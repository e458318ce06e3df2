"""Normalizes the tags of traces: lower case, with hyphens in place of white space."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import StringConstraints

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TAGS: Final = 20
"""A trace has at most this many tags."""
MAX_TAG_INPUTS: Final = 100
"""An argument may contain this many tags, since several may normalize to the same tag."""
MAX_TAG_LENGTH: Final = 60
"""A tag has at most this many characters."""

_RULE: Final = "a tag consists of letters a to z, digits and . _ -"
_TAG: Final = re.compile(r"[a-z0-9._-]+")

TagInput = Annotated[str, StringConstraints(max_length=MAX_TAG_LENGTH)]
"""A tag as the caller wrote it, before it is normalized."""


def normalize_tag(text: str) -> str:
    """Normalize a tag or the beginning of one, such as `Google Cloud` to `google-cloud`.

    A tag that is too long is cut to one character more than the limit, so that it stays too long.
    """
    tag = "-".join(unicodedata.normalize("NFKC", text).casefold().split())
    return tag[: MAX_TAG_LENGTH + 1]


def normalize_tags(texts: Iterable[str]) -> tuple[str, ...]:
    """Normalize tags, keep their order, and drop duplicates.

    Raises:
        InvalidInput: A tag is not valid, or there are more than `MAX_TAGS`.
    """
    tags: dict[str, None] = {}
    errors: dict[str, str] = {}
    for index, text in enumerate(texts):
        tag = normalize_tag(text)
        tags[tag] = None
        if not _TAG.fullmatch(tag) or len(tag) > MAX_TAG_LENGTH:
            errors[f"tags.{index}"] = f"{_RULE}, at most {MAX_TAG_LENGTH} of them"
    if errors:
        message = f"{_RULE.capitalize()}, such as cpp, c-sharp or python-3.12."
        raise InvalidInput(message, details=errors)
    if len(tags) > MAX_TAGS:
        message = f"There are {len(tags)} tags. Keep the {MAX_TAGS} that matter most."
        raise InvalidInput(message, details={"tags": f"more than {MAX_TAGS}"})
    return tuple(tags)
