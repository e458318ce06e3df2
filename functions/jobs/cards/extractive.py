"""Makes knowledge cards from sentences of the chunk, without a language model.

- A text no longer than a summary is its own summary, without takeaways, so that the card of a short
  highlight does not repeat itself.
- The summary of a longer text consists of its best sentences, up to 400 characters and two fifths
  of the text. The takeaways are the best remaining sentences: three, or up to five for a long text,
  or fewer if no more sentences remain.
- A text without a sentence, such as code or a table, gets no card.

If several sentences have almost the same content, only the best one is used. Sentences keep the
order of the text. A sentence is cut, between two words, only if it alone exceeds the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.knowledge.knowledge_card import KnowledgeCard
from shared.text.sentences import split_sentences
from shared.text.snippets import truncate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.text.key_sentences import KeySentence

MODEL: Final = "extractive"
"""The model name that is stored with these cards."""
MAX_SUMMARY: Final = 400
"""The maximum length of a summary, in characters."""
MAX_TAKEAWAY: Final = 300
"""The maximum length of a takeaway, in characters."""
SUMMARY_SHARE: Final = 0.4
"""The maximum share of the text in a summary, unless the best sentence alone is longer."""
MIN_TAKEAWAYS, MAX_TAKEAWAYS = 3, 5
SENTENCES_PER_TAKEAWAY: Final = 5
"""A card has one takeaway for each of this many distinct sentences, within the limits above."""
MAX_SIMILARITY: Final = 0.6
"""If two sentences are at least this similar, the lower-ranked one is left out."""


def make_extractive_card(text: str, title: str = "") -> KnowledgeCard | None:
    """Make the card of a text, or return None if the text has no sentence."""
    sentences = split_sentences(text)
    prose = " ".join(sentences)
    if len(prose) <= MAX_SUMMARY:
        return KnowledgeCard(prose) if prose else None
    from shared.text.key_sentences import rank_sentences

    best_sentences = _drop_similar(rank_sentences(sentences, title))
    if not best_sentences:
        return KnowledgeCard(truncate(prose, MAX_SUMMARY))
    summary = _pick_summary(best_sentences, min(MAX_SUMMARY, int(SUMMARY_SHARE * len(prose))))
    other_sentences = [sentence for sentence in best_sentences if sentence not in summary]
    count = min(max(len(best_sentences) // SENTENCES_PER_TAKEAWAY, MIN_TAKEAWAYS), MAX_TAKEAWAYS)
    return KnowledgeCard(
        truncate(" ".join(_sort_by_position(summary)), MAX_SUMMARY),
        tuple(truncate(text, MAX_TAKEAWAY) for text in _sort_by_position(other_sentences[:count])),
    )


def _drop_similar(ranked_sentences: Sequence[KeySentence]) -> list[KeySentence]:
    """Return the sentences that are not too similar to a better one."""
    distinct: list[KeySentence] = []
    for sentence in ranked_sentences:
        if all(sentence.similarities[better.position] < MAX_SIMILARITY for better in distinct):
            distinct.append(sentence)
    return distinct


def _pick_summary(ranked_sentences: Sequence[KeySentence], length: int) -> list[KeySentence]:
    """Return the best sentence, and those of the next three that fit into the remaining length."""
    summary = [ranked_sentences[0]]
    remaining_length = length - len(ranked_sentences[0].text)
    for sentence in ranked_sentences[1 : MIN_TAKEAWAYS + 1]:
        if len(sentence.text) < remaining_length:
            summary.append(sentence)
            remaining_length -= len(sentence.text) + 1
    return summary


def _sort_by_position(unordered_sentences: Sequence[KeySentence]) -> list[str]:
    """Return the texts of sentences in the order of the chunk."""
    return [
        sentence.text
        for sentence in sorted(unordered_sentences, key=lambda sentence: sentence.position)
    ]
