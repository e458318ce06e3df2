"""Knowledge cards without a language model: a passage's own sentences, word for word.

- A text that is no longer than a summary may be is its own summary, whole, without takeaways: so
  each highlight has a card and is found among them, and nothing is said twice.
- Of a longer one, the summary is its best sentences, up to 400 characters and two fifths of it, and
  the takeaways are the best of the others: three, or up to five of a long text. Where there are
  fewer sentences, there are fewer takeaways.
- A text without a sentence (code, a table) has no card.

Sentences that say almost the same count once. They stand in the order of the text, and none is cut
unless it is longer than its place: then at a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.knowledge.chunk import KnowledgeCard
from shared.text.sentences import sentences
from shared.text.snippets import truncate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.text.key_sentences import KeySentence

MODEL: Final = "extractive"
"""Who made these cards."""
SUMMARY: Final = 400
"""Characters of a summary, at most."""
TAKEAWAY: Final = 300
"""Characters of a takeaway, at most."""
PART: Final = 0.4
"""How much of a text its summary is, at most, unless its best sentence is longer."""
FEWEST, MOST = 3, 5
"""Takeaways."""
PER_TAKEAWAY: Final = 5
"""Sentences of a text for each of its takeaways, beyond the fewest."""
ALIKE: Final = 0.6
"""The likeness from which one of two sentences says enough."""


def extractive_card(text: str, title: str = "") -> KnowledgeCard | None:
    """The card of a text; None if it holds no sentence."""
    whole = " ".join(sentences(text))
    if len(whole) <= SUMMARY:
        return KnowledgeCard(whole) if whole else None
    from shared.text.key_sentences import key_sentences

    best = _different(key_sentences(text, title))
    if not best:
        return KnowledgeCard(truncate(whole, SUMMARY))
    summary = _fitting(best, min(SUMMARY, int(PART * len(whole))))
    others = [each for each in best if each not in summary]
    takeaways = others[: min(max(len(best) // PER_TAKEAWAY, FEWEST), MOST)]
    return KnowledgeCard(
        truncate(" ".join(_in_order(summary)), SUMMARY),
        tuple(truncate(line, TAKEAWAY) for line in _in_order(takeaways)),
    )


def _different(ranked: Sequence[KeySentence]) -> list[KeySentence]:
    """Those that no better one says already."""
    kept: list[KeySentence] = []
    for each in ranked:
        if all(each.likeness[other.place] < ALIKE for other in kept):
            kept.append(each)
    return kept


def _fitting(ranked: Sequence[KeySentence], length: int) -> list[KeySentence]:
    """The best sentence, and of the next ones those for which there is room beside it."""
    chosen = [ranked[0]]
    left = length - len(ranked[0].text)
    for each in ranked[1 : FEWEST + 1]:
        if len(each.text) < left:
            chosen.append(each)
            left -= len(each.text) + 1
    return chosen


def _in_order(chosen: Sequence[KeySentence]) -> list[str]:
    return [each.text for each in sorted(chosen, key=lambda each: each.place)]
