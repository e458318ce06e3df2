"""Overrides: a title, an author or tags that the owner set, in place of what the origin says.

The field of a source holds what the owner set, and `origin_values` beside it what its origin says:
its file, the bucket or Readwise. Ingest brings `origin_values` up to date and leaves the field
alone, so that the owner can go back to the origin at any time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import SourceFields

    FieldValues = Mapping[str, Any]
    """Values by field name: a title, an author or None, a tuple of tags."""

EDITABLE: Final = ("title", "author", "tags")
"""The fields of a source that an owner can set."""


def read_values(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the editable fields that are in a stored map, which has tags as a list."""
    return {
        name: tuple(data[name]) if name == "tags" else data[name]
        for name in EDITABLE
        if name in data
    }


def own_tags(chunk: Chunk, origin_tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags of a chunk that are not those of its source.

    Args:
        chunk: The chunk.
        origin_tags: The tags that the source has at its origin.
    """
    if chunk.own_tags is not None:
        return chunk.own_tags
    return tuple(tag for tag in chunk.tags if tag not in origin_tags)


def updated_chunk(chunk: Chunk, source: SourceFields, origin_values: FieldValues) -> Chunk:
    """Return a chunk with the title, the author and the tags of its source, and its own tags.

    Args:
        chunk: The chunk, before or after an edit of its source.
        source: The source after it.
        origin_values: What the origin says of the overridden fields.
    """
    own = own_tags(chunk, origin_values.get("tags", source.tags))
    return replace(
        chunk,
        title=source.title,
        author=source.author,
        tags=tuple(dict.fromkeys(source.tags + own)),
        own_tags=own if "tags" in origin_values else None,
    )
