"""Search passages by meaning and by words, or list them by date."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AliasChoices, Field, StringConstraints, TypeAdapter

from functions.tools.knowledge.search_kb import messages
from functions.tools.knowledge.search_kb.filters import Filters, to_selection
from functions.tools.knowledge.search_kb.hits import (
    Detail,
    Hit,
    format_hit,
    make_hits,
    make_near_hits,
)
from shared.core.caller import Tier
from shared.core.dates import ALL_DATES
from shared.core.errors import InvalidInput
from shared.core.ids import parse_source_id
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.copies import fold
from shared.knowledge.corpus import get_knowledge_corpus
from shared.runtime.capabilities import Capability
from shared.runtime.pagination import (
    CursorCount,
    CursorMoment,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import FOR_APPS, DocumentId, Result
from shared.runtime.tool import Effect, Tool
from shared.search.fusion import diversify_hits
from shared.search.hybrid import rank
from shared.search.listing import (
    RANK_POSITION,
    RankPosition,
    fetch_passing,
    find_start,
    list_newest,
    make_rank_position,
)
from shared.search.query import Mode, SearchQuery
from shared.search.relevance import MAX_NEAR
from shared.search.understanding import DateOrder, understand
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.filter_plan import Selection
    from shared.search.listing import Listing
    from shared.search.query import Candidate, Ranking
    from shared.search.understanding import Understanding

_DatePosition = tuple[CursorCount, CursorMoment, DocumentId]
_DATE_POSITION: Final = TypeAdapter(_DatePosition)
"""The shape of a cursor into a listing: the number of passages on earlier pages, and the date and
id of the last of them."""
_ANY_POSITION: Final[TypeAdapter[_DatePosition | RankPosition]] = TypeAdapter(
    _DatePosition | RankPosition
)
"""The shape of a cursor of a question that asks for a listing. Where no passage is listed, it is
searched for."""
MAX_NEAR_COMPARED: Final = 10
"""At most this many hits that do not answer are compared with the others, as few are shown."""


class In(PagedArguments):
    """A query, filters or both."""

    query: (
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
        | None
    ) = Field(
        default=None,
        description="A question or subject in plain words.",
        validation_alias=AliasChoices("query", "q"),
    )
    filters: Filters | None = Field(default=None, description="All must pass; -value excludes.")
    mode: Mode = Field(
        default=Mode.HYBRID,
        description="lexical: by words; all of them first, counted.",
    )
    search_cards_only: bool = Field(
        default=False,
        description="Only passages with a knowledge card.",
    )
    sort: DateOrder | None = Field(default=None, description="Which first.")
    by_source: bool = Field(default=False, description="Each source once. Needs a query.")
    limit: int = Field(default=10, ge=1, le=50, description="Maximum number of passages.")
    detail: Detail = Field(
        default=Detail.LEAN,
        description="full: whole texts and takeaways.",
    )


class Out(Result):
    """A page of passages."""

    understood: str | None = Field(
        description="What the query says about dates, authors and order, as it was understood."
    )
    message: str | None = Field(
        description="Limits of the results, such as unknown filter values, and what to try next."
    )
    matches: bool = Field(
        description="Whether any hit is likely to answer. If false, say so instead of answering"
        " from these hits, which are merely the nearest."
    )
    results: list[Hit] = Field(description="The passages, best first; without a query by date.")
    clusters: dict[str, str] | None = Field(description="The names of their clusters, by id.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")
    query: str | None = Field(
        description="The query that was searched for.", json_schema_extra=FOR_APPS
    )


async def search_kb(args: In, ctx: Context) -> Out:
    """Search passages, or list them by date.

    Costs at most three round trips, and another in each of two cases: too few of the nearest
    passages pass the filters, although the postings promised enough; a hit has no vector yet, or
    was just deleted. A question that only asks for the passages of some days, of which there are
    none, costs one more, and so does the local model, unless the state of the base was read within
    15 seconds.

    Raises:
        InvalidInput: There is neither a query nor a filter, or a filter or cursor is not valid.
        Unavailable: The embedding provider is down, and the mode is semantic.
    """
    selection = to_selection(
        args.filters, ctx.clock(), zone=ctx.zone, cards_only=args.search_cards_only
    )
    if args.query is None:
        if selection.is_unrestricted:
            raise InvalidInput(
                "search_kb takes a query, filters or both. Give one and call search_kb again, or"
                " call get_recent for what is new.",
                details={"query": "required where there are no filters"},
            )
        if args.sort is DateOrder.OLDEST or args.by_source:
            raise InvalidInput(
                "sort oldest and by_source need a query. Without one, passages are listed newest"
                " first. To list sources, call list_sources.",
                details={"query": "required with by_source, and with sort oldest"},
            )
        after = decode_cursor(args, args.cursor, _DATE_POSITION)
        return await _list(args, selection, after, ctx)
    understanding = understand(args.query, ctx.clock(), selection.span.zone)
    if args.sort:
        understanding = replace(understanding, order=args.sort)
    query = SearchQuery(args.query, args.mode, selection, understanding=understanding)
    shape = _ANY_POSITION if understanding.is_listing else RANK_POSITION
    position = decode_cursor(args, args.cursor, shape)
    is_page_of_ranking = position is not None and len(position) == 2  # noqa: PLR2004 - RankPosition
    if understanding.is_listing and not is_page_of_ranking and not args.by_source:
        span = selection.span & (understanding.period or ALL_DATES)
        listing = await _list(args, replace(selection, span=span), position, ctx, understanding)
        if listing.results or position:
            return listing
    return await _search(args, query, position, ctx)


async def _search(args: In, query: SearchQuery, position: RankPosition | None, ctx: Context) -> Out:
    """Return the passages that answer, best first, and after the last page's the nearest others."""
    corpus = get_knowledge_corpus(ctx.database)
    ranking = await rank(query, corpus, ctx)
    in_order = order_hits(ranking, query)
    candidates = {hit.id: hit for hit in in_order}
    answering_hits, nearest = [hit for hit in in_order if hit.answers], ranking.nearest
    compared = [*answering_hits, *nearest[:MAX_NEAR_COMPARED]]
    copies = fold(hit.document for hit in compared if hit.document)
    folded = {copy.id for others in copies.values() for copy in others}
    ids = [hit.id for hit in answering_hits if hit.id not in folded]
    near_ids = [hit.id for hit in nearest if hit.id not in folded]
    answering: Counter[str] = Counter()
    if args.by_source:
        answering.update(map(parse_source_id, ids))
        ids, near_ids = _take_best(ids), _take_best(near_ids, answering)
    start = find_start(ids, position)
    # Whether near passages are needed is known only where no answer follows.
    near_ids = near_ids if len(ids) - start <= args.limit else []
    already_read = {hit.id: hit.document for hit in in_order if hit.document}
    (answers, examined), (near, _) = await asyncio.gather(
        fetch_passing(ids[start:], args.limit, query.selection, corpus.documents, already_read),
        fetch_passing(near_ids, MAX_NEAR, query.selection, corpus.documents, already_read),
    )
    # Hits that only words found are read, and thus folded, page by page.
    copies = fold([*answers, *(copy for chunk in answers for copy in copies.get(chunk.id, ()))])
    answers = [chunk for chunk in answers if chunk.id in copies]
    near = near[: args.limit - len(answers)]
    matches = ranking.matches and bool(answers or near or position)
    zone, first_rank = query.selection.span.zone, start + 1
    (all_hits, clusters), notes = await asyncio.gather(
        make_hits(
            answers,
            ctx,
            zone=zone,
            first_rank=first_rank,
            detail=args.detail,
            include_card=args.search_cards_only,
            terms=ranking.terms,
            candidates=candidates,
            answering=answering,
            copies=copies,
        ),
        messages.explain_ranking(
            query, ranking, ctx, matches=matches, any_hits=bool(answers or near)
        ),
    )
    near_hits = make_near_hits(near, zone, first_rank + len(answers), candidates)
    hits = _fit_hits([*all_hits, *near_hits], args)
    end = start + examined
    if len(hits) < len(answers):  # The answer is full: later hits go to the next page.
        end = ids.index(hits[-1].chunk_id) + 1
    has_more = end < len(ids)
    counts = messages.count_answers(ranking, query, hits, len(ids), matches=matches)
    return Out(
        query=args.query,
        matches=matches,
        understood=_describe(query.understanding, ranking.authors),
        results=hits,
        clusters=_select_clusters(clusters, hits),
        next_cursor=encode_cursor(args, make_rank_position(ids, end)) if has_more else None,
        message=" ".join([*counts, *notes]) or None,
    )


def order_hits(ranking: Ranking[Chunk], query: SearchQuery) -> Sequence[Candidate[Chunk]]:
    """Return the hits by date, if the query asks for that, or else so that sources take turns."""
    is_by_date = query.understanding is not None and query.understanding.order is not None
    return ranking.hits if is_by_date else diversify_hits(ranking.hits, parse_source_id)


def _take_best(ids: Iterable[str], excluded: Container[str] = ()) -> list[str]:
    """Return the first passage of each source, without excluded sources."""
    best: dict[str, str] = {}
    for chunk_id in ids:
        best.setdefault(parse_source_id(chunk_id), chunk_id)
    return [chunk_id for source_id, chunk_id in best.items() if source_id not in excluded]


async def _list(
    args: In,
    selection: Selection,
    position: _DatePosition | None,
    ctx: Context,
    understanding: Understanding | None = None,
) -> Out:
    """List the passages that pass the filters, newest first."""
    earlier, after = (position[0], position[1:]) if position else (0, None)
    corpus = get_knowledge_corpus(ctx.database)
    listing = await list_newest(selection, args.limit, after, corpus)
    copies = fold(listing.documents)
    chunks = [chunk for chunk in listing.documents if chunk.id in copies]
    (all_hits, clusters), notes, total = await asyncio.gather(
        make_hits(
            chunks,
            ctx,
            zone=selection.span.zone,
            first_rank=earlier + 1,
            detail=args.detail,
            include_card=args.search_cards_only,
            copies=copies,
        ),
        messages.explain_unknown_filters(listing.unknown, ctx),
        _count(selection, listing, ctx),
    )
    hits = _fit_hits(all_hits, args)
    if total and not earlier:
        passage_count = sum(1 + len(hit.also_in or ()) for hit in hits)
        notes.insert(0, f"{passage_count} of {format_count(total, 'passage')}, newest first.")
    next_position = listing.next
    if len(hits) < len(chunks):
        next_position = listing.cursors[listing.documents.index(chunks[len(hits) - 1])]
    if not (hits or next_position or earlier):
        notes += messages.explain_nothing_passes(selection, listing.unknown)
    return Out(
        query=None,
        matches=bool(hits),
        understood=_describe(understanding and replace(understanding, order=DateOrder.NEWEST)),
        results=hits,
        clusters=_select_clusters(clusters, hits),
        next_cursor=(
            encode_cursor(args, (earlier + len(hits), *next_position)) if next_position else None
        ),
        message=" ".join(notes) or None,
    )


async def _count(selection: Selection, listing: Listing[Chunk], ctx: Context) -> int | None:
    """Return the number of passages on all pages, or None if only reading them would show it."""
    if selection.filters or not listing.next:
        return listing.total if listing.next else len(listing.documents)
    return await Chunks(ctx.database).count(selection.span)


def _describe(understanding: Understanding | None, authors: Sequence[str] = ()) -> str | None:
    """Say what is understood: `May 2024; by Ann Helm; newest first`. None if nothing is."""
    if understanding is None:
        return None
    parts = [understanding.period.describe()] if understanding.period else []
    parts += [f"by {' and '.join(authors)}"] if authors else []
    parts += [f"{understanding.order} first"] if understanding.order else []
    return "; ".join(parts) or None


def _select_clusters(names: dict[str, str], hits: Sequence[Hit]) -> dict[str, str] | None:
    return {hit.cluster: names[hit.cluster] for hit in hits if hit.cluster} or None


def _fit_hits(hits: list[Hit], args: In) -> list[Hit]:
    return fit_page(hits, args.max_tokens, cursor=args.cursor)


def format_result(out: Out) -> str:
    """Return the hits as text."""
    paragraphs = [f"Understood: {out.understood}."] if out.understood else []
    paragraphs += [out.message] if out.message else []
    paragraphs += [format_hit(hit) for hit in out.results if not hit.near]
    if near := [format_hit(hit) for hit in out.results if hit.near]:
        paragraphs.append("\n".join(["Near:", *near]))
    if out.clusters:
        paragraphs.append(f"Clusters: {_format_clusters(out.clusters, out.results)}")
    if out.next_cursor:
        paragraphs.append(f"There are more: call again with cursor {out.next_cursor}")
    return "\n\n".join(paragraphs) or "There is nothing."


def _format_clusters(names: dict[str, str], hits: Sequence[Hit]) -> str:
    """List the clusters with the ranks of their hits: `Bread (ID: c1): 1, 3; Sea (ID: c2): 2`.

    Each name occurs only once, so a hit costs no more than its rank.
    """
    ranks = {key: [str(hit.rank) for hit in hits if hit.cluster == key] for key in names}
    return "; ".join(f"{name} (ID: {key}): {', '.join(ranks[key])}" for key, name in names.items())


TOOL = Tool(
    name="search_kb",
    title="Search the knowledge base",
    description=(
        "Search what the owner has read, highlighted and noted, by meaning and words. Use it"
        " first for what these may answer. It understands dates, authors, 'latest'."
        " matches: false means nothing is likely to answer. Filters alone list by date."
        " get_chunk returns a passage."
    ),
    input=In,
    output=Out,
    run=search_kb,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    app="hits",
    capabilities=frozenset({Capability.EMBEDDING}),
)
