"""The messages of `search_kb`, which explain incomplete or empty results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.core.installation import carrel
from shared.index.facets import Kind
from shared.knowledge.common_names import CommonNames, drop_kept_out
from shared.knowledge.corpus import get_knowledge_corpus
from shared.knowledge.queue import ChunkQueue
from shared.search.query import TIMEOUT_MESSAGES, Degradation, Mode
from shared.text.counts import format_count
from shared.text.suggestions import find_nearest_names, find_nearest_word, unknown_name_message
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from functions.tools.knowledge.search_kb.hits import Hit
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.filter_plan import FacetFilter, Selection
    from shared.search.query import Ranking, SearchQuery

NOTHING_MATCHES: Final = (
    "Nothing here matches strongly. If none of these answers, try other words, or the language of"
    " the texts, before you conclude that there is nothing on it."
)
MAX_COUNTED: Final = 12
"""The number of words of a question for which it is said how many passages have them."""
MAX_CORRECTED: Final = 2
"""The number of unknown words of a question for which known words are suggested."""
MIN_CORRECTED_LENGTH: Final = 5
"""The number of letters from which on a similar word is suggested: a shorter word has neighbours
that are other words, rather than what was meant."""
MAX_COMPARED: Final = 50
"""The number of known terms that one unknown word is compared with. Each costs a read."""
NO_WORDS: Final = (
    "No passage has these words. Try others, or mode hybrid, which also searches by meaning."
)
COMMON_WORDS: Final = "These words are too common to search for: add a more specific one."
NO_WORDS_HERE: Final = (
    "No passage that passes the filters has these words. Try other words or fewer filters."
)
NOTHING_PASSES: Final = (
    "No passage matches all of these filters. Leave one out, or widen the dates."
)
NO_PHRASE: Final = (
    'No passage found has the words "{}" in this order: they were searched without quotation marks.'
)
NO_PERIOD: Final = "No passage found is dated {}: the question was searched without the date."
TRUNCATED: Final = (
    "More passages may pass the filters than could be checked: a narrower filter finds them."
)
UNCHECKED: Final = "Exclusions were checked only in the passages found."
DEGRADED: Final = {
    Degradation.EMBEDDING_UNAVAILABLE: "The embedding provider cannot be reached right now.",
    Degradation.NOTHING_EMBEDDED: "Nothing has been embedded yet.",
    Degradation.REEMBEDDING: "The knowledge base is being embedded with another model right now.",
    Degradation.SEMANTIC_TIMED_OUT: "The search by meaning did not finish in time.",
    **TIMEOUT_MESSAGES,
}
NOT_INDEXED: Final = "Passages that were just added are not found yet: try again soon."
CONVERSATIONS: Final = (
    "These words occur in {} from conversations with assistants. To find them, set the filter"
    " category: conversation."
)
ONLY_WORDS: Final = "Only words were searched."


def explain_empty() -> str:
    """Say how texts get into an empty knowledge base."""
    return f"The knowledge base is empty. The owner adds texts with `{carrel('ingest PATH')}`."


async def explain_ranking(
    query: SearchQuery, ranking: Ranking[Chunk], ctx: Context, *, matches: bool, any_hits: bool
) -> list[str]:
    """Return sentences on what limited a search, and on what to try if nothing matches.

    Costs one round trip if a filter value is unknown or nothing matches.

    Args:
        matches: Whether any hit is likely to answer.
        any_hits: Whether hits are returned, likely to answer or not.
    """
    unknown_words = [word for word, count in ranking.word_counts.items() if not matches | count]
    messages, waiting, suggestions = await asyncio.gather(
        explain_unknown_filters(ranking.unknown, ctx),
        _count_waiting(ctx, matches=matches),
        asyncio.gather(*(_suggest_word(word, ctx) for word in unknown_words[:MAX_CORRECTED])),
    )
    if ranking.degradation and (ranking.documents or not ranking.is_lexical_only):
        messages.append(DEGRADED[ranking.degradation])
        if ranking.is_lexical_only and query.is_lexical:
            messages.append(ONLY_WORDS)
    messages += [NO_PHRASE.format(phrase) for phrase in ranking.absent_phrases]
    if (period := query.period) and not ranking.has_period:
        messages.append(NO_PERIOD.format(period.describe()))
    if query.selection.excluded and not ranking.is_exact:
        messages.append(UNCHECKED)
    if ranking.truncated:
        messages.append(TRUNCATED)
    if matches and any_hits and query.is_lexical and not ranking.terms:
        messages.append(COMMON_WORDS)
    if not matches:
        messages += _describe_words(ranking) if any_hits else []
        known_words = " ".join(filter(None, suggestions))
        messages += [f'Did you mean "{known_words}"?'] if known_words else []
        messages += _explain_no_match(query, ranking, any_hits=any_hits)
        if waiting:
            messages.append(NOT_INDEXED)
        if ranking.hidden_count:
            messages.append(CONVERSATIONS.format(format_count(ranking.hidden_count, "passage")))
    return messages


def count_answers(
    ranking: Ranking[Chunk], query: SearchQuery, hits: Sequence[Hit], answers: int, *, matches: bool
) -> list[str]:
    """Say how many passages answer, and how many others are shown.

    Args:
        answers: The number of passages that answer, on this and all other pages.
        matches: Whether any of them is likely to.
    """
    near = sum(bool(hit.near) for hit in hits)
    sentences = []
    if hits and query.mode is Mode.LEXICAL and ranking.all_words_count is not None:
        count = format_count(ranking.all_words_count, "passage")
        sentences.append(f"All words are in {count}.")
    count_here = len(hits) - near
    verb = "Answers" if matches else "May answer"
    if count_here and near:
        sentences.append(f"{verb}: {count_here}; near: {near}.")
    elif count_here < answers:
        sentences.append(f"{verb}: {count_here} of {answers}.")
    return sentences


def _describe_words(ranking: Ranking[Chunk]) -> list[str]:
    """Say how many passages have each word, and in which languages meaning was compared."""
    counts = list(ranking.word_counts.items())[:MAX_COUNTED]
    words = ", ".join(f"{word} {count}" for word, count in counts)
    languages = "all languages" if ranking.is_multilingual else "English"
    meaning = f" By meaning, texts in {languages} were searched." if ranking.is_semantic else ""
    return [f"Passages with each word: {words}.{meaning}"] if words else []


async def _suggest_word(word: str, ctx: Context) -> str | None:
    """Return the known word that is nearest to one that no passage has, or None.

    Costs one round trip. Only words that begin like it are compared, and MAX_COMPARED of them.
    """
    [term, *_] = terms(word)
    if len(term) < MIN_CORRECTED_LENGTH:
        return None
    prefix = term[: len(term) // 2]
    known_terms = await get_knowledge_corpus(ctx.database).index.list_terms(prefix, MAX_COMPARED)
    # The word itself may occur in a conversation that is not searched.
    return find_nearest_word(word, term, [known for known in known_terms if known != term])


async def _count_waiting(ctx: Context, *, matches: bool) -> int:
    """Count the passages that wait to be indexed, if nothing matches. Costs one round trip."""
    return 0 if matches else await ChunkQueue(ctx.database).count_pending("index")


def explain_nothing_passes(
    selection: Selection, unknown: Sequence[tuple[FacetFilter, str]]
) -> list[str]:
    """Say that nothing passes the filters, unless a message about an unknown filter says why."""
    is_explained = any(
        all((filter_, value) in unknown for value in filter_.choices)
        for filter_ in selection.filters
        if not filter_.excludes
    )
    return [] if is_explained else [NOTHING_PASSES]


async def explain_unknown_filters(
    unknown: Iterable[tuple[FacetFilter, str]], ctx: Context
) -> list[str]:
    """Return a sentence on each filter value that no passage has, with the most similar names.

    Costs one round trip.
    """
    return await asyncio.gather(
        *(_explain_unknown(filter_, value, ctx) for filter_, value in unknown)
    )


def _explain_no_match(query: SearchQuery, ranking: Ranking[Chunk], *, any_hits: bool) -> list[str]:
    """Say what to try when nothing matches."""
    is_unrestricted = query.selection.is_unrestricted
    if any_hits:
        has_words = ranking.terms or not query.is_lexical
        return [NOTHING_MATCHES] if has_words else [COMMON_WORDS, NOTHING_MATCHES]
    if is_unrestricted and not ranking.documents:
        return [explain_empty()]
    if query.is_lexical and (ranking.is_lexical_only or not query.is_semantic):
        if not ranking.terms:
            return [COMMON_WORDS]
        return [NO_WORDS if is_unrestricted else NO_WORDS_HERE]
    return [] if is_unrestricted else explain_nothing_passes(query.selection, ranking.unknown)


async def _explain_unknown(filter_: FacetFilter, value: str, ctx: Context) -> str:
    kind = filter_.choices[value][-1].kind
    if kind is Kind.CARD:
        return "No passage has a knowledge card yet: leave out search_cards_only."
    kind = Kind.SOURCE if kind is Kind.TITLE else kind
    existing = await CommonNames(ctx.database).load(kind)
    if kind is Kind.SOURCE:
        existing = await drop_kept_out(existing, ctx.database)
    if kind is not Kind.CLUSTER:
        return unknown_name_message(kind.value, value, [item.name for item in existing])
    # The filter takes an id, but callers may give a cluster's name.
    clusters = {
        alias: cluster for cluster in existing for alias in (cluster.facet.key, cluster.name)
    }
    nearest = dict.fromkeys(clusters[alias] for alias in find_nearest_names(value, list(clusters)))
    hints = ", ".join(f"{cluster.facet.key} ({cluster.name})" for cluster in nearest)
    return f"There is no cluster {value!r}." + (f" Nearest: {hints}." if hints else "")
