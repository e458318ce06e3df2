"""Makes knowledge cards from sentences of the chunk, without a language model.

The summary is the best sentence that stands alone, with those after it that refer back to it. The
takeaways are other sentences that stand alone. A card has at most half of its text, because a
longer one takes as long to read as the text. A short text has no card, and neither have code, lists
and tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.knowledge.knowledge_card import KnowledgeCard
from shared.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.text.key_sentences import KeySentence

MODEL: Final = "extractive-3"
"""The model name that is stored with these cards. A new name lets `renew` replace older cards."""
MIN_TEXT: Final = 400
"""The minimum number of characters of prose for a card. A shorter text is its own summary."""
MIN_SUMMARY, MAX_SUMMARY = 40, 400
"""The length of a summary, in characters."""
MIN_PROSE_SHARE: Final = 0.6
"""A text of which less is statements is mostly code, lists or tables, and gets no card."""
SUMMARY_SHARE: Final = 0.33
"""The maximum share of the text in a summary."""
CARD_SHARE: Final = 0.5
"""The maximum share of the text in a card."""
MAX_TAKEAWAYS: Final = 5
MAX_SIMILARITY: Final = 0.6
"""A takeaway is less similar than this to the summary and to each other takeaway."""


def make_extractive_card(text: str, title: str = "") -> KnowledgeCard | None:
    """Make the card of a text, or return None if the text needs none."""
    sentences = split_sentences(text)
    length = len(" ".join(sentences))
    if length < MIN_TEXT:
        return None
    from shared.text.key_sentences import rank_sentences

    ranked = rank_sentences(sentences, title)
    statements = (entry.text for entry in ranked if entry.stands_alone or entry.refers_back)
    if sum(map(len, statements)) < MIN_PROSE_SHARE * len(text):
        return None
    summary = _pick_summary(ranked, min(MAX_SUMMARY, int(SUMMARY_SHARE * length)))
    if not summary:
        return None
    summary_text = " ".join(sentence.text for sentence in summary)
    takeaways = _pick_takeaways(ranked, summary, int(CARD_SHARE * length) - len(summary_text))
    return KnowledgeCard(summary_text, tuple(sentence.text for sentence in takeaways))


def _pick_summary(ranked: Sequence[KeySentence], max_length: int) -> list[KeySentence]:
    """Return the best sentence that stands alone, and those after it that refer back to it."""
    by_position = {sentence.position: sentence for sentence in ranked}
    best = next(
        (
            sentence
            for sentence in ranked
            if sentence.stands_alone and MIN_SUMMARY <= len(sentence.text) <= max_length
        ),
        None,
    )
    if best is None:
        return []
    summary = [best]
    length = len(best.text)
    while (follower := by_position.get(summary[-1].position + 1)) and follower.refers_back:
        length += 1 + len(follower.text)
        if length > max_length:
            break
        summary.append(follower)
    return summary


def _pick_takeaways(
    ranked: Sequence[KeySentence], summary: Sequence[KeySentence], max_length: int
) -> list[KeySentence]:
    """Return the best other sentences that stand alone and fit together, in order of the text."""
    chosen = list(summary)
    for sentence in ranked:
        if sentence.stands_alone and all(
            sentence.similarities[other.position] < MAX_SIMILARITY for other in chosen
        ):
            max_length -= len(sentence.text)
            if max_length < 0 or len(chosen) == len(summary) + MAX_TAKEAWAYS:
                break
            chosen.append(sentence)
    return sorted(chosen[len(summary) :], key=lambda entry: entry.position)
