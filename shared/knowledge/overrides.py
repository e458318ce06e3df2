"""Overrides: a title, an author or tags that the owner set, in place of what the origin says.

The field of the source contains what the owner set. `origin_values` contains what the origin says,
which is the source's file, bucket or Readwise. Ingest updates only `origin_values`, so that the
owner can return to the origin's value at any time.

A chunk's own tags can be set likewise, and `origin_tags` contains what the origin says.
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
    """Read those editable fields that stored data contains. It contains tags as a list."""
    return {
        name: tuple(data[name]) if name == "tags" else data[name]
        for name in EDITABLE
        if name in data
    }


def get_own_tags(chunk: Chunk, origin_tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags of a chunk that its source does not have."""
    if chunk.own_tags is not None:
        return chunk.own_tags
    return tuple(tag for tag in chunk.tags if tag not in origin_tags)


def apply_source_fields(chunk: Chunk, source: SourceFields, origin_values: FieldValues) -> Chunk:
    """Return a chunk with the title, the author and the tags of its edited source.

    The chunk keeps its own tags.

    Args:
        chunk: The chunk, whether or not the edit was applied to it before.
        source: The source after the edit.
        origin_values: What the origin says of the fields that the owner set.
    """
    own = get_own_tags(chunk, origin_values.get("tags", source.tags))
    return replace(
        chunk,
        title=source.title,
        author=source.author,
        tags=tuple(dict.fromkeys(source.tags + own)),
        own_tags=own if "tags" in origin_values or chunk.origin_tags is not None else None,
    )


def set_own_tags(
    chunk: Chunk,
    tags: tuple[str, ...] | None,
    source: SourceFields,
    origin_values: FieldValues,
) -> Chunk:
    """Return a chunk whose own tags the owner sets, or with None, resets.

    Args:
        source: Its source.
        origin_values: What the origin says of the fields that the owner set in the source.
    """
    origin_tags = chunk.origin_tags
    if origin_tags is None:
        origin_tags = get_own_tags(chunk, origin_values.get("tags", source.tags))
    edited = replace(
        chunk,
        own_tags=origin_tags if tags is None else tags,
        origin_tags=None if tags is None else origin_tags,
    )
    return apply_source_fields(edited, source, origin_values)
