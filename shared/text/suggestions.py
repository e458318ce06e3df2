"""The existing names that somebody may have meant by one that does not exist."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST: Final = 0.6
"""The likeness below which a name is no suggestion; difflib's own default."""
_WHOLE_WORDS: Final = 0.9
"""How alike two names count of which one holds all words of the other."""


def nearest_names(wanted: str, names: Sequence[str], limit: int = 3) -> list[str]:
    """The names most like an unknown one, best first; of equally good ones the first in `names`.

    Likeness is that of the letters, whatever their case, or of whole words: `Loaf` finds
    `Ida Loaf`. Where nothing is alike, nothing is returned.

    Args:
        wanted: What does not exist.
        names: What does.
        limit: How many at most.
    """
    folded = wanted.casefold()
    matcher = SequenceMatcher(
        None, "", folded, autojunk=False
    )  # it keeps what it knows of the second
    likeness = {name: _likeness(matcher, folded, name.casefold()) for name in names}
    near = [name for name in likeness if likeness[name] >= LEAST]
    return sorted(near, key=lambda name: -likeness[name])[:limit]


def unknown_name_message(what: str, wanted: str, names: Sequence[str]) -> str:
    """Say that there is no such `tag`, `author` ..., and which there are like it."""
    near = nearest_names(wanted, [name for name in names if name != wanted])  # names get old
    if not near:
        return f"There is no {what} {wanted!r}, nor any like it."
    return f"There is no {what} {wanted!r}. Nearest: {', '.join(map(repr, near))}."


def _likeness(matcher: SequenceMatcher[str], wanted: str, name: str) -> float:
    words, others = set(wanted.split()), set(name.split())
    if words and others and (words <= others or others <= words):
        return 1.0 if words == others else _WHOLE_WORDS
    matcher.set_seq1(name)
    return matcher.ratio() if matcher.quick_ratio() >= LEAST else 0.0
