"""Arguments of tools for the titles and tags that people give to sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, StringConstraints

from shared.core.text_validation import validate_line

if TYPE_CHECKING:
    from collections.abc import Sequence


def _validate_title(text: str) -> str:
    return validate_line(" ".join(text.split()))


def _validate_tag(text: str) -> str:
    return validate_line(text).lstrip("#")


Title = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_validate_title)
]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_validate_tag)]


def drop_duplicate_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags in their order, without duplicates and empty tags."""
    return tuple(dict.fromkeys(filter(None, tags)))
