"""Applies the action tags that people type at the beginning of a highlight's note for Readwise.

| in the note | becomes |
|---|---|
| `.h1` to `.h6` | the highlighted text is the chapter of the highlights after it |
| `.c1`, `.c2` ... | the highlighted texts become one passage |
| `.d`, `.discard` | the highlight is left out, as if it had been discarded in Readwise |
| `.word` | a tag |

https://docs.readwise.io/readwise/guides/action-tags describes them. Readwise exports the notes as
they were typed, and the names among the tags as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TYPED_TAG: Final = re.compile(r"\.(?=[^\W\d_])([\w/:-]+)(?:\s+|\Z)")
"""Matches a tag in a note. `...` and `.5` are none."""
_ACTION: Final = re.compile(r"(?P<heading>h[1-6])|c(?P<part>[1-9]\d?)", re.IGNORECASE)
DISCARD_TAG: Final = "discard"
"""The tag of a highlight that was discarded, where no field says so."""
_TYPED_DISCARDS: Final = frozenset({"d", DISCARD_TAG})


@dataclass(frozen=True, slots=True)
class TaggedNote:
    """A note without its action tags.

    Attributes:
        text: What else the note says.
        tags: The tags of the highlight, without action tags.
        is_heading: Whether the highlighted text is the title of a chapter.
        part: The number of the highlight among those that become one passage, from 1.
        is_discarded: Whether the note says to leave the highlight out.
    """

    text: str
    tags: tuple[str, ...]
    is_heading: bool = False
    part: int | None = None
    is_discarded: bool = False


def parse_note(note: str, tags: Iterable[str]) -> TaggedNote:
    """Separate the action tags from a note and from the tags of its highlight."""
    typed: list[str] = []
    end = 0
    while match := _TYPED_TAG.match(note, end):
        typed.append(match[1])
        end = match.end()
    names: dict[str, str] = {}
    for name in (*tags, *typed):
        names.setdefault(name.casefold(), name)
    actions = [action for name in names if (action := _ACTION.fullmatch(name))]
    parts = [int(action["part"]) for action in actions if action["part"]]
    return TaggedNote(
        note[end:],
        tuple(name for key, name in names.items() if not _ACTION.fullmatch(key)),
        is_heading=any(action["heading"] for action in actions),
        part=parts[0] if parts else None,
        is_discarded=not _TYPED_DISCARDS.isdisjoint(map(str.casefold, typed)),
    )


def group_parts(parts: Iterable[int | None]) -> list[list[int]]:
    """Return the indexes of highlights that become one passage, by their first highlights.

    Args:
        parts: The number of each highlight, in reading order; None for one that stands alone.
            Number 1 begins a passage, and other highlights may lie between two of its parts.
    """
    groups: list[list[int]] = []
    open_group: list[int] = []
    last_part = 0
    for index, part in enumerate(parts):
        if part and part > last_part > 0:
            open_group.append(index)
        else:
            groups.append([index])
            if part:
                open_group = groups[-1]
        last_part = part or last_part
    return groups
