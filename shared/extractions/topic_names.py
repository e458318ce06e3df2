"""Maps the many spellings of a topic to one canonical name.

Models and people may write `LLMs` or `large-language-models`. A name is case-folded, and then
replaced if `data/topic-aliases.json` or the settings list it as an alias: an abbreviation, a
plural, or a British or American spelling.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_CHARACTERS: Final = 80
"""A topic name has at most this many characters. Longer names are dropped, because they are
sentences rather than topics."""
MAX_TOPICS: Final = 5
"""An extraction has at most this many topics, because each topic adds two facets."""
_DATA: Final = Path(__file__).parent / "data" / "topic-aliases.json"
"""The built-in aliases: a list by canonical name."""
_MAX_FOLDED: Final = MAX_CHARACTERS + 2
"""A folded name is cut to this length, because folding turns one character into up to 18. A name
that was cut is still too long for a topic, even if its last character is a space."""
_SEPARATORS: Final = re.compile(r"[-_\u2010-\u2015\u2212\s]+")


def fold(name: str) -> str:
    """Return a name without differences of case, width, hyphens and white space, to compare it."""
    text = unicodedata.normalize("NFKC", name).casefold()
    # Folding may undo the normal form, and the normal form of the result may have capitals.
    text = unicodedata.normalize("NFKC", text).casefold()
    visible = "".join(" " if _is_control(character) else character for character in text)
    words = " ".join(_SEPARATORS.sub(" ", visible).split()).lstrip("# ")
    return words[:_MAX_FOLDED].rstrip()


def canonicalize_topic(name: str, aliases: Mapping[str, str]) -> str:
    """Return the canonical name of a topic, or an empty string if the name has only separators.

    Args:
        aliases: The configured canonical names by alias. They take precedence over built-in ones.
    """
    topic = fold(name)
    configured = {fold(alias): fold(canonical) for alias, canonical in aliases.items()}
    visited: list[str] = []
    while topic not in visited:
        visited.append(topic)
        topic = configured.get(topic) or _load_built_in_aliases().get(topic, topic)
    # The loop ends at a name that is not an alias, or in a cycle of aliases. All names in a cycle
    # are the same topic, so the alphabetically first one is used for all.
    return min(visited[visited.index(topic) :])


def canonicalize_topics(names: Iterable[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Return the canonical names of the first `MAX_TOPICS` different topics of valid length."""
    topics = dict.fromkeys(canonicalize_topic(name, aliases) for name in names)
    return tuple(topic for topic in topics if 0 < len(topic) <= MAX_CHARACTERS)[:MAX_TOPICS]


@cache
def _load_built_in_aliases() -> dict[str, str]:
    table: dict[str, list[str]] = json.loads(_DATA.read_text("utf-8"))
    return {fold(alias): canonical for canonical, aliases in table.items() for alias in aliases}


def _is_control(character: str) -> bool:
    """Return whether a character is a control or format character, which is invisible."""
    return unicodedata.category(character) in {"Cc", "Cf"}
