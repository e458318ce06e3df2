"""Passages that say the same are one hit, which names the others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.tools.knowledge.forget.tool import In as ForgetIn
from functions.tools.knowledge.forget.tool import forget
from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import format_result as format_chunk
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.get_recent.tool import In as RecentIn
from functions.tools.knowledge.get_recent.tool import get_recent
from functions.tools.knowledge.save_note.arguments import In as NoteIn
from functions.tools.knowledge.save_note.tool import save_note
from functions.tools.knowledge.search_kb.hits import Hit
from functions.tools.knowledge.search_kb.tool import In, format_result, search_kb
from shared.knowledge.source import Source
from shared.runtime.context import Context
from tests.support.apps import Apps
from tests.support.followed_folder import ingest_cleanly
from tests.support.forgetting import OWNER
from tests.support.knowledge import embed_all, index_all, store_sources
from tests.support.searches import (
    collect_hits,
    date_source,
    make_source_of_text,
    make_source_of_texts,
    search_all_pages,
)
from tests.support.small_sources import NOON
from tests.support.source_files import make_readwise_book, write_export, write_file

TEXT = "The keel bolts were replaced in May; torque them to 90 Nm after the first sail."
TIDES = [f"Tide number {number} waits for a sailor." for number in range(12)]
KINDLE: Source = make_source_of_texts(TIDES, "kindle", origin="kindle", tags=("sea",))
READER: Source = make_source_of_texts(
    [text.upper() for text in TIDES], "reader", origin="reader", tags=("read",)
)


@pytest.fixture(scope="module")
async def base(shared_apps: Apps) -> Context:
    """A base with twelve passages, each in two sources."""
    ctx = shared_apps.context(NOON)
    await store_sources(ctx, date_source(KINDLE, NOON), date_source(READER, NOON))
    return ctx


async def find(ctx: Context, query: str, **arguments: Any) -> list[Hit]:
    hits = (await search_kb(In(query=query, **arguments), ctx)).results
    return [hit for hit in hits if not hit.near]


def list_copies(hit: Hit) -> set[str]:
    return {copy.title for copy in hit.also_in or ()}


async def ingest_folder(ctx: Context, folder: Path) -> None:
    await ingest_cleanly(ctx, folder)
    await embed_all(ctx)
    await index_all(ctx)


async def test_a_copy_of_a_sync_program_is_no_second_hit(ctx: Context, tmp_path: Path) -> None:
    """Public case 14. A copy that may correct the note is a hit of its own."""
    folder = tmp_path / "vault"
    write_file(folder, "Keel repair.md", TEXT)
    write_file(folder, "Keel repair (conflicted copy 2024-06-01 101500).md", TEXT)
    write_file(folder, "Keel repair (Ann's conflicted copy).md", TEXT.replace("90", "95"))
    await ingest_folder(ctx, folder)
    hits = await find(ctx, "keel bolts torque")
    assert sorted(len(hit.also_in or ()) for hit in hits) == [0, 1]
    [hit] = [hit for hit in hits if hit.also_in]
    [copy] = hit.also_in or []
    assert {hit.title, copy.title} == {
        "Keel repair",
        "Keel repair (conflicted copy 2024-06-01 101500)",
    }
    assert (await get_chunk(ChunkIn(chunk_id=copy.chunk_id), ctx)).content == hit.snippet


async def test_a_book_from_kindle_and_readwise_is_one_hit(ctx: Context, tmp_path: Path) -> None:
    """Public case 52."""
    text = "The moon is a slow bell that every harbour hears."
    clipping = (
        "Reading the Tide (Holm, Ida)\n- Your Highlight on page 12 | Location 155-156 | Added on"
        f" Friday, May 31, 2024 4:41:53 PM\n\n{text}\n==========\n"
    )
    write_file(tmp_path / "both", "My Clippings.txt", clipping)
    book = make_readwise_book(title="Reading the Tide", source="kindle")
    book["highlights"] = [book["highlights"][0] | {"text": text}]
    write_export(tmp_path / "both", book)
    await ingest_folder(ctx, tmp_path / "both")
    [hit] = await find(ctx, "moon harbour bell")
    [copy] = hit.also_in or []
    assert copy.title == "Reading the Tide"
    assert copy.chunk_id != hit.chunk_id


async def test_a_highlight_exported_thrice_is_one_hit(ctx: Context, tmp_path: Path) -> None:
    """Public case 10."""
    text = "A small engine lasts because nobody expects it to hurry."
    links = [f"- {text} ([View Highlight](https://read.readwise.io/read/01{c}))" for c in "abc"]
    lines = [
        "# Small Engines",
        "",
        "## Metadata",
        "- Author: [[Mira Vogt]]",
        "- Category: #articles",
    ]
    note = "\n".join([*lines, "", "## Highlights", *links, ""])
    write_file(tmp_path, "vault/Readwise/Articles/Small Engines.md", note)
    await ingest_folder(ctx, tmp_path / "vault")
    assert len(await find(ctx, "small engine hurry")) == 1


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
@pytest.mark.parametrize("limit", [5, 50])
async def test_each_thought_is_one_hit_on_all_pages(base: Context, mode: str, limit: int) -> None:
    pages = await search_all_pages(base, limit, query="tide sailor", mode=mode)
    hits = [hit for hit in collect_hits(pages) if not hit.near]
    assert sorted(hit.snippet.lower() for hit in hits if hit.snippet) == sorted(
        map(str.lower, TIDES)
    )
    assert all(len(hit.also_in or ()) == 1 for hit in hits)
    assert [hit.rank for hit in hits] == list(range(1, 13))


@pytest.mark.parametrize(
    "arguments", [{"query": "tide", "mode": "lexical"}, {"filters": {"period": "this_year"}}]
)
@pytest.mark.parametrize("limit", [1, 5, 50])
async def test_no_passage_is_lost_between_pages(
    base: Context, arguments: dict[str, Any], limit: int
) -> None:
    hits = collect_hits(await search_all_pages(base, limit, **arguments))
    named = {copy.chunk_id for hit in hits for copy in hit.also_in or ()}
    assert len({hit.chunk_id for hit in hits} | named) == 24
    if limit == 50:
        assert len(hits) == 12


async def test_a_list_counts_the_passages_that_it_names(base: Context) -> None:
    out = await search_kb(In(filters={"category": "books"}, limit=50), base)
    assert out.message == "24 of 24 passages, newest first."


async def test_only_copies_that_pass_the_filters_are_named(base: Context) -> None:
    hits = await find(base, "tide sailor", filters={"tags": ["sea"]})
    assert hits
    assert not any(hit.also_in for hit in hits)


async def test_the_text_names_the_copies(base: Context) -> None:
    out = await search_kb(In(query="tide sailor", limit=1), base)
    [copy] = out.results[0].also_in or []
    assert f"Also in {copy.title} (ID: {copy.chunk_id})" in format_result(out)


async def test_a_copy_of_a_passage_is_not_related_to_it(ctx: Context) -> None:
    await store_sources(ctx, *(make_source_of_text(TEXT, name) for name in ("first", "second")))
    [hit] = await find(ctx, "keel bolts torque")
    out = await get_chunk(ChunkIn(chunk_id=hit.chunk_id), ctx)
    assert out.related_chunks == []
    assert out.also_in == hit.also_in
    assert "Also in " in format_chunk(out)


async def test_recent_passages_are_folded(base: Context) -> None:
    out = await get_recent(RecentIn(limit=50), base)
    assert len(out.chunks) == 12
    assert all(len(chunk.also_in or ()) == 1 for chunk in out.chunks)
    first = await get_recent(RecentIn(limit=5), base)
    assert first.next_cursor


async def test_forgetting_one_leaves_the_others(ctx: Context) -> None:
    await store_sources(ctx, KINDLE, READER)
    owner = replace(ctx, caller=OWNER)
    await forget(ForgetIn(source_id="kindle"), owner)
    await index_all(ctx)
    hits = await find(ctx, "tide sailor", limit=50)
    assert {hit.source_id for hit in hits} == {"reader"}
    assert not any(hit.also_in for hit in hits)


async def test_a_note_about_a_copy_stands_under_the_hit(ctx: Context) -> None:
    first, second = (make_source_of_text(TEXT, name) for name in ("first", "second"))
    await store_sources(ctx, first, second)
    [hit] = await find(ctx, "keel bolts torque")
    [copy] = hit.also_in or []
    await save_note(NoteIn(text="Ours take 80.", about=copy.chunk_id, corrects=True), ctx)
    hits = {hit.chunk_id: hit for hit in await find(ctx, "keel bolts torque")}
    assert [note.corrects for note in hits[hit.chunk_id].notes or ()] == [True]
