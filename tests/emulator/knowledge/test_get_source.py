"""`get_source` returns a source and its passages in order, page by page."""

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.get_source.tool import In, Out, get_source
from shared.core.errors import Conflict, InvalidInput, NotFound
from shared.core.meter import Meter
from shared.knowledge.views import MAX_LINKS
from shared.runtime.context import App, Context
from shared.runtime.pagination import encode_cursor
from shared.writer.ingestion import Ingestion
from tests.support.knowledge import BAKING, chunk_source, set_fields
from tests.support.notes import save_note
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.small_sources import make_source, store_and_index
from tests.support.tool_calls import call_result

NO_NOTES = 1
"""The query for notes costs a read although it finds none."""
NEXT_PASSAGE = 1
"""A page reads one passage more, which shows whether there is another page."""
PAGE_START = 2
"""A later page reads the positions of the passages that were on both sides of its beginning."""
PREVIOUS_PASSAGE = 1
"""A later page reads the passage before it, whose end its first passage may repeat."""

LETTERS = "abcdefgh"
"""The texts of the passages of the source `letters`."""


def list_texts(out: Out) -> list[str]:
    return [chunk.text for chunk in out.chunks]


async def get_letters(ctx: Context, cursor: str | None = None, limit: int = 3) -> Out:
    return await get_source(In(source_id="letters", limit=limit, cursor=cursor), ctx)


async def test_a_source_and_its_passages_are_returned(
    ctx: Context, snapshot: SnapshotAssertion
) -> None:
    chunk = (await store_and_index(ctx, BAKING))[0]
    card = {"summary": "Knead and rest.", "takeaways": ["Smooth dough"]}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": card})
    out = await get_source(In(source_id="baking", limit=1), ctx)
    assert out.model_dump(exclude={"next_cursor"}) == snapshot
    await store_and_index(ctx, replace(BAKING, sections=()))
    with pytest.raises(NotFound):
        await get_source(In(source_id="baking"), ctx)


async def test_overlapping_passages_are_returned_once(ctx: Context) -> None:
    """Also where a page begins between them."""
    text = " ".join(f"Sentence {number} is about bread." for number in range(300))
    chunked = chunk_source(make_source("long", text), "vertex")
    assert sum(len(chunk.content) for chunk in chunked.chunks) > len(text)
    await Ingestion(ctx.database).save([chunked], ctx.clock())
    first = await get_source(In(source_id="long", limit=2), ctx)
    second = await get_source(In(source_id="long", cursor=first.next_cursor), ctx)
    assert "".join([*list_texts(first), *list_texts(second)]) == text


async def test_passages_come_in_order_over_all_pages(ctx: Context) -> None:
    """The limit may change between pages."""
    await store_and_index(ctx, make_source("letters", *LETTERS))
    first = await get_letters(ctx)
    second = await get_letters(ctx, first.next_cursor, limit=2)
    third = await get_letters(ctx, second.next_cursor)
    assert [list_texts(page) for page in (first, second, third)] == [[*"abc"], [*"de"], [*"fgh"]]
    assert third.next_cursor is None


async def test_paging_continues_although_the_source_was_edited(ctx: Context) -> None:
    """The first page has shown a, b and c."""
    for edited, expected in {
        "XYabcdefgh": "defgh",
        "cdefgh": "defgh",
        "abcXdefgh": "Xdefgh",
        "abXdefgh": "Xdefgh",
        "abdefgh": "defgh",
        "defgh": "defgh",
        "abc": "",
        "habcdefg": "defg",
    }.items():
        await store_and_index(ctx, make_source("letters", *LETTERS))
        cursor = (await get_letters(ctx)).next_cursor
        await store_and_index(ctx, make_source("letters", *edited))
        page = await get_letters(ctx, cursor, limit=10)
        assert list_texts(page) == list(expected), edited


async def test_a_cursor_whose_passages_are_gone_is_a_conflict(ctx: Context) -> None:
    """The last passage of the first page is gone, and the one after it, too."""
    await store_and_index(ctx, make_source("letters", *LETTERS))
    cursor = (await get_letters(ctx)).next_cursor
    await store_and_index(ctx, make_source("letters", *"abefgh"))
    with pytest.raises(Conflict, match="Call get_source again without the cursor"):
        await get_letters(ctx, cursor)


async def test_a_page_of_long_passages_ends_early(ctx: Context) -> None:
    texts = [f"{n} " + "word " * 270 for n in range(14)]
    chunks = await store_and_index(ctx, make_source("letters", *texts))
    args = In(source_id="letters")
    first = await get_source(args, ctx)
    second = await get_source(args.model_copy(update={"cursor": first.next_cursor}), ctx)
    assert 9_000 < len(first.model_dump_json(exclude_none=True)) < 12_000
    assert [*list_texts(first), *list_texts(second)] == [chunk.content for chunk in chunks]


async def test_a_forged_cursor_reads_nothing(ctx: Context, meter: Meter) -> None:
    """A position consists of the ids of a page's last passage and the next one, and a number."""
    positions: list[list[int | str]] = [
        ["a/b/c", "d", 1], ["a", "__x__", 1], ["", "a", 1], ["a", "b", -1], ["a", "b"]
    ]  # fmt: skip
    for position in positions:
        with pytest.raises(InvalidInput, match="cursor"):
            await get_letters(ctx, encode_cursor(In(source_id="letters"), position))
    assert meter.documents_read == 0


async def test_links_are_shown_in_both_directions(ctx: Context) -> None:
    """At most thirty in each."""
    await store_and_index(
        ctx,
        make_source("rye", links_to=("wheat", "not-stored", "oats")),
        make_source("oats", links_to=("rye",)),
        make_source("wheat", links_to=("oats", "rye")),
    )
    out = await get_source(In(source_id="rye"), ctx)
    assert [linked.model_dump() for linked in out.links_to] == [
        {"source_id": "wheat", "title": "Wheat"},
        {"source_id": "oats", "title": "Oats"},
    ]
    assert [linked.source_id for linked in out.linked_from] == ["oats", "wheat"]

    names = [f"s{number}" for number in range(31)]
    sources = [make_source(name, links_to=("hub",)) for name in names]
    await store_and_index(ctx, *sources[:20], make_source("hub", links_to=tuple(names)))
    await store_and_index(ctx, *sources[20:])
    out = await get_source(In(source_id="hub"), ctx)
    assert len(out.links_to) == len(out.linked_from) == MAX_LINKS == 30


async def test_links_cost_a_round_trip_and_only_on_the_first_page(ctx: Context, app: App) -> None:
    letters = make_source("letters", *LETTERS, links_to=("a", "b"))
    await store_and_index(ctx, letters, make_source("a", links_to=("letters",)))
    source, passages, linked_from, links_to = 1, 3 + NEXT_PASSAGE, 1, 2

    first_ctx = make_call_context(app)
    first = await get_letters(first_ctx)
    documents = source + passages + NO_NOTES + linked_from + links_to
    assert get_read_cost(first_ctx) == ReadCost(round_trips=2, documents=documents)

    second_ctx = make_call_context(app)
    second = await get_letters(second_ctx, first.next_cursor)
    documents = source + PAGE_START + passages + PREVIOUS_PASSAGE + NO_NOTES
    assert get_read_cost(second_ctx) == ReadCost(round_trips=2, documents=documents)
    assert second.links_to == second.linked_from == []


async def test_a_note_is_returned_with_its_whole_text(app: App) -> None:
    """The passages of a note may overlap, and so do not add up to its text."""
    text = "\n\n".join(f"Paragraph {number}: " + "bread and water " * 20 for number in range(20))
    text = text.strip()
    note = await save_note(app, text)
    page = {"source_id": note["source_id"], "limit": 1}
    first = await call_result(app, "get_source", **page)
    assert first["text"] == text
    assert "text" not in await call_result(app, "get_source", **page, cursor=first["next_cursor"])
