"""All that is said of results that are not what was hoped for: what is missing, what to relax."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.index.facets import Kind
from shared.knowledge.common_names import CommonNames
from shared.knowledge.queue import Steps
from shared.search.candidates import NoMeaning
from shared.text.suggestions import nearest_names, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.candidates import SearchQuery
    from shared.search.filter_plan import FacetFilter, Selection
    from shared.search.hybrid import Ranking

EMPTY: Final = "Nothing can be found here yet. The owner puts texts in with `carrel ingest PATH`."
NOTHING_MATCHES: Final = (
    "Nothing here matches strongly. The nearest passages follow: read them first, and if none of"
    " them answers, try other words, or the language of the texts, before you say that the"
    " knowledge base has nothing on it."
)
NO_WORDS: Final = (
    "No passage holds these words. Try others, or mode hybrid, which goes by meaning too."
)
COMMON_WORDS: Final = "These words are too common to look for: add one that says more."
NO_WORDS_HERE: Final = (
    "No passage that passes the filters holds these words. Try other words or fewer filters."
)
NOTHING_PASSES: Final = "No passage passes all of these filters. Leave one out, or widen the dates."
TRUNCATED: Final = (
    "More passages may pass the filters than could be checked: a narrower filter finds those."
)
WITHOUT_MEANING: Final = {
    NoMeaning.PROVIDER_UNAVAILABLE: "The embedding provider cannot be reached right now.",
    NoMeaning.NOTHING_EMBEDDED: "Nothing has been embedded yet.",
    NoMeaning.EMBEDDED_ANEW: "Everything is being embedded with another model right now.",
    NoMeaning.OUT_OF_TIME: "The search by meaning did not finish in time.",
}
WORDS_ALONE: Final = "Words alone were searched."
_KINDS: Final = {
    "tags": ("tag", Kind.TAG),
    "author": ("author", Kind.AUTHOR),
    "source": ("source", Kind.TITLE),
    "category": ("category", Kind.CATEGORY),
    "cluster_id": ("cluster", Kind.CLUSTER),
}


async def of_ranking(question: SearchQuery, ranking: Ranking[Chunk], ctx: Context) -> list[str]:
    """What went otherwise than the caller may think. One round trip."""
    notes = await unknown_filters(ranking.unknown, ctx)
    if ranking.without_meaning and ranking.documents:
        notes.append(WITHOUT_MEANING[ranking.without_meaning])
        notes += [WORDS_ALONE] if question.by_words else []
    elif ranking.late:
        notes.append(ranking.late)
    if ranking.truncated:
        notes.append(TRUNCATED)
    return notes


def without_a_match(question: SearchQuery, ranking: Ranking[Chunk], *, shown: bool) -> list[str]:
    """What to do where nothing matches; `shown` is whether there are hits all the same."""
    everything = question.selection.everything
    if shown:
        return [NOTHING_MATCHES]
    if everything and not ranking.documents:
        return [EMPTY]
    if question.by_words and (ranking.without_meaning or not question.by_meaning):
        if not ranking.terms:
            return [COMMON_WORDS]
        return [NO_WORDS if everything else NO_WORDS_HERE]
    return [] if everything else nothing_passes(question.selection, ranking.unknown)


def nothing_passes(selection: Selection, unknown: Sequence[tuple[FacetFilter, str]]) -> list[str]:
    """Say so, unless a filter of which nothing is known is reason enough and named already."""
    groups = selection.groups
    named = any(all((group, value) in unknown for value in group.choices) for group in groups)
    return [] if named else [NOTHING_PASSES]


async def not_yet(ctx: Context) -> list[str]:
    """How much cannot be found yet, if anything. One round trip."""
    waiting = await Steps(ctx.database).count_pending("index")
    return [f"{waiting} passages still wait to be indexed."] if waiting else []


async def unknown_filters(unknown: Iterable[tuple[FacetFilter, str]], ctx: Context) -> list[str]:
    """Name each value that no passage bears, with the nearest that exist. One round trip."""
    return await asyncio.gather(*(_unknown(group.field, value, ctx) for group, value in unknown))


async def _unknown(field: str, value: str, ctx: Context) -> str:
    if field == "search_cards_only":
        return "No passage has a knowledge card yet: leave out search_cards_only."
    what, kind = _KINDS[field]
    names = await CommonNames(ctx.database).of(kind)
    if kind is not Kind.CLUSTER:
        return unknown_name(what, value, [each.name for each in names])
    # People may give a topic's name; the id is what the filter takes.
    shown = {alias: each for each in names for alias in (each.facet.key, each.name)}
    near = dict.fromkeys(shown[alias] for alias in nearest_names(value, list(shown)))
    hints = ", ".join(f"{each.facet.key} ({each.name})" for each in near)
    return f"There is no cluster {value!r}." + (f" Nearest: {hints}." if hints else "")
