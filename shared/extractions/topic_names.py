"""Topics: what extractions are about, under one name each.

Models and people write the same topic in many ways: `LLMs`, `large-language-models`. A name is
folded, and then replaced where `data/topic-aliases.json` or the settings know it as another name of
a topic: an abbreviation, a plural, American or British spelling.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shared.extractions.model import ExtractionType

LONGEST: Final = 80
"""Characters of a topic; what is longer is none."""
MOST: Final = 5
"""Topics of one extraction."""
_DATA: Final = Path(__file__).parent / "data" / "topic-aliases.json"
_KEPT: Final = LONGEST + 2
"""Of what is longer, so many characters: still no topic, the last one being a space or not, and
short enough to be looked up. Folding makes up to 18 characters of one."""
_DASHES: Final = re.compile(r"[-_\u2010-\u2015\u2212\s]+")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and how much there is about it.

    Attributes:
        name: As `normal_topic` writes it.
        counts: How many extractions of each type are about it.
        total: How many are in all.
    """

    name: str
    counts: Mapping[ExtractionType, int]
    total: int

    def count(self, kind: ExtractionType | None) -> int:
        """How many extractions of a type are about it; None: of all types."""
        return self.counts[kind] if kind else self.total


def folded(name: str) -> str:
    """A name as it is compared: case, width, hyphens, underscores and white space do not matter."""
    text = unicodedata.normalize("NFKC", name).casefold()
    # Folding may undo the normal form, and the normal form of what was folded may have capitals.
    text = unicodedata.normalize("NFKC", text).casefold()
    printed = "".join(" " if _is_control(each) else each for each in text)
    words = " ".join(_DASHES.sub(" ", printed).split()).lstrip("# ")
    return words[:_KEPT].rstrip()


def normal_topic(name: str, aliases: Mapping[str, str]) -> str:
    """The one name of a topic; empty where nothing but punctuation of ours was given.

    Args:
        name: The topic as somebody wrote it.
        aliases: Other names of topics to their own, beside those that Carrel knows, and before
            them.
    """
    topic = folded(name)
    known = {folded(alias): folded(own) for alias, own in aliases.items()}
    passed: list[str] = []
    while topic not in passed:
        passed.append(topic)
        topic = known.get(topic) or _aliases().get(topic, topic)
    # A circle of aliases is all one topic.
    return min(passed[passed.index(topic) :])


def normal_topics(names: Iterable[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """The first few different topics among these names, each under its one name."""
    topics = dict.fromkeys(normal_topic(name, aliases) for name in names)
    return tuple(topic for topic in topics if 0 < len(topic) <= LONGEST)[:MOST]


@cache
def _aliases() -> dict[str, str]:
    table: dict[str, list[str]] = json.loads(_DATA.read_text("utf-8"))
    return {folded(alias): own for own, aliases in table.items() for alias in aliases}


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf"}
