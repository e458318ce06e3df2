"""The tag `keep-out` leaves passages out of search, lists and exports, but not of reading by id."""

from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from functions.jobs.index.job import index
from functions.tools.knowledge.complete_name.tool import In as NameIn
from functions.tools.knowledge.complete_name.tool import complete_name
from functions.tools.knowledge.edit_source.tool import In as EditIn
from functions.tools.knowledge.edit_source.tool import edit_source
from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.get_recent.tool import In as RecentIn
from functions.tools.knowledge.get_recent.tool import get_recent
from functions.tools.knowledge.list_sources.tool import In as SourcesIn
from functions.tools.knowledge.list_sources.tool import list_sources
from functions.tools.knowledge.save_note.arguments import In as NoteIn
from functions.tools.knowledge.save_note.tool import save_note
from functions.tools.knowledge.search_kb.tool import In, search_kb
from infra.export.exporting import ExportReport, export_all
from shared.knowledge.chunk import Chunk
from shared.knowledge.source import Source
from shared.runtime.context import Context
from tests.support.apps import Apps
from tests.support.extractions import make_decision, make_extraction, store_extractions
from tests.support.followed_folder import ingest_cleanly
from tests.support.forgetting import OWNER
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import store_sources
from tests.support.searches import (
    collect_hits,
    date_source,
    make_source_of_texts,
    search_all_pages,
    update_and_index_chunk,
)
from tests.support.small_sources import NOON
from tests.support.stored_documents import read_chunks, read_documents

DIARY: Source = make_source_of_texts(
    [f"An anchor of my own, number {number}." for number in range(3)],
    "diary",
    tags=("boats", "keep-out/diary"),
)
BOOK: Source = make_source_of_texts(
    ["An anchor holds in mud.", "A chain is heavy."], "book", tags=("boats",)
)


@pytest.fixture(scope="module")
async def base(shared_apps: Apps) -> Context:
    """A base with a book, and a diary that is kept out."""
    ctx = shared_apps.context(NOON)
    await store_sources(ctx, date_source(BOOK, NOON), date_source(DIARY, NOON))
    return ctx


async def find_sources(ctx: Context, **arguments: Any) -> set[str]:
    pages = await search_all_pages(ctx, 50, **arguments)
    return {hit.source_id for hit in collect_hits(pages)}


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
@pytest.mark.parametrize("filters", [{}, {"tags": ["boats"]}, {"tags": ["-keep-out"]}])
async def test_a_search_leaves_them_out(base: Context, mode: str, filters: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"filters": filters} if filters else {}
    assert await find_sources(base, query="anchor", mode=mode, **arguments) == {"book"}


@pytest.mark.parametrize("tag", ["keep-out", "#Keep-Out", "keep-out/diary"])
@pytest.mark.parametrize(
    "arguments", [{}, {"query": "anchor"}, {"query": "anchor", "mode": "lexical"}]
)
async def test_a_search_that_asks_for_the_tag_finds_them(
    base: Context, tag: str, arguments: dict[str, Any]
) -> None:
    pages = await search_all_pages(base, 50, filters={"tags": [tag]}, **arguments)
    assert {hit.source_id for hit in collect_hits(pages)} == {"diary"}
    assert len(collect_hits(pages)) == 3


async def test_the_name_of_their_source_does_not_ask_for_them(base: Context) -> None:
    assert await find_sources(base, query="anchor", filters={"source": "diary"}) == set()


async def test_no_message_says_that_they_exist(base: Context) -> None:
    out = await search_kb(In(query="own", mode="lexical"), base)
    assert "conversation" not in (out.message or "")
    listed = await search_kb(In(filters={"tags": ["boats"]}), base)
    assert listed.message == "2 of 2 passages, newest first."


async def test_lists_leave_them_out_unless_asked(base: Context) -> None:
    recent = await get_recent(RecentIn(), base)
    assert {chunk.source_id for chunk in recent.chunks} == {"book"}
    listed = await list_sources(SourcesIn(), base)
    assert [source.source_id for source in listed.sources] == ["book"]
    asked = await list_sources(SourcesIn(tag="keep-out"), base)
    assert [source.source_id for source in asked.sources] == ["diary"]


async def test_a_passage_is_still_read_by_its_id(base: Context) -> None:
    [hit, *_] = (await search_kb(In(filters={"tags": ["keep-out"]}), base)).results
    out = await get_chunk(ChunkIn(chunk_id=hit.chunk_id), base)
    assert "keep-out/diary" in out.tags
    assert out.related_chunks == []


async def test_a_tag_takes_away_what_jobs_derived(ctx: Context) -> None:
    """The vector, the clusters and the extractions of a passage go, and come back without it."""
    chunk, other = await store_sources(ctx, BOOK)
    await store_extractions(ctx, make_extraction(chunk, make_decision(), "sailing"))
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    await store_sources(ctx, replace(BOOK, tags=("keep-out",)))
    stored = (await read_chunks(ctx))[chunk.chunk_id]
    assert stored.keys().isdisjoint({"embedding", "cluster_id", "extracted"})
    assert stored["pending"] == {}
    assert await read_documents(ctx, "extractions") == {}
    assert await find_sources(ctx, query="anchor") == set()

    await store_sources(ctx, BOOK)
    assert await find_sources(ctx, query="anchor", mode="semantic") == {"book"}
    pending = (await read_chunks(ctx))[chunk.chunk_id]["pending"]
    assert set(pending) == {"card", "cluster", "extract"}
    assert other.chunk_id != chunk.chunk_id


async def test_a_note_with_the_tag_is_kept_out(ctx: Context) -> None:
    saved = await save_note(NoteIn(text="The anchor of my boat."), ctx)
    assert await find_sources(ctx, query="anchor") == {saved.source_id}
    await save_note(NoteIn(source_id=saved.source_id, revision=1, tags=["keep-out"]), ctx)
    await index(ctx, make_ample_budget())
    assert await find_sources(ctx, query="anchor") == set()
    assert await find_sources(ctx, query="anchor", filters={"tags": ["keep-out"]}) == {
        saved.source_id
    }


async def keep_out(chunk: Chunk, ctx: Context) -> None:
    """Give the tag to a passage."""
    edit = EditIn(chunk_id=chunk.chunk_id, revision=0, tags=[*chunk.tags, "keep-out"])
    await edit_source(edit, replace(ctx, caller=OWNER))


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
async def test_a_new_tag_keeps_out_before_the_index_job_runs(ctx: Context, mode: str) -> None:
    chunk, _ = await store_sources(ctx, BOOK)
    assert await find_sources(ctx, query="anchor", mode=mode) == {"book"}
    await keep_out(chunk, ctx)
    pages = await search_all_pages(ctx, query="anchor", mode=mode)
    assert chunk.chunk_id not in {hit.chunk_id for hit in collect_hits(pages)}


async def test_a_note_shows_nothing_of_what_is_kept_out(ctx: Context) -> None:
    """Neither of a passage nor of a source."""
    passage, _ = await store_sources(ctx, BOOK)
    secret, *_ = await store_sources(ctx, DIARY)
    for about in (passage.chunk_id, secret.source_id):
        await save_note(NoteIn(text=f"Ropes chafe, {about}.", about=about), ctx)
    await keep_out(passage, ctx)
    hits = (await search_kb(In(query="ropes chafe", mode="lexical"), ctx)).results
    subjects = {hit.about.id: (hit.about.title, hit.about.text) for hit in hits if hit.about}
    assert subjects == {passage.chunk_id: (None, None), secret.source_id: (None, None)}


async def test_titles_of_what_is_kept_out_are_not_suggested(base: Context) -> None:
    for prefix in ("", "dia", "diary"):
        names = (await complete_name(NameIn(kind="source", prefix=prefix), base)).names
        assert "Diary" not in {name.name for name in names}
    out = await search_kb(In(query="anchor", filters={"source": "dairy"}), base)
    assert "Diary" not in (out.message or "")


async def test_one_passage_of_a_source_can_be_kept_out(ctx: Context) -> None:
    chunk, _ = await store_sources(ctx, BOOK)
    await keep_out(chunk, ctx)
    await index(ctx, make_ample_budget())
    hits = (await search_kb(In(filters={"tags": ["boats"]}), ctx)).results
    assert [hit.snippet for hit in hits] == ["A chain is heavy."]


async def export(ctx: Context, folder: Path, **options: bool) -> ExportReport:
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs
    return await export_all(ctx.database, folder, None, lambda _: None, UTC, **options)


async def test_an_export_leaves_them_out_unless_asked(base: Context, tmp_path: Path) -> None:
    report = await export(base, tmp_path / "without")
    assert (report.counts["sources"], report.counts["passages"], report.left_out) == (1, 2, 3)
    assert report.incomplete == []
    report = await export(base, tmp_path / "with", with_kept_out=True)
    assert (report.counts["passages"], report.left_out) == (5, 0)


async def test_ingesting_an_export_keeps_what_it_leaves_out(ctx: Context, tmp_path: Path) -> None:
    first, kept_out = BOOK.sections
    book = replace(BOOK, sections=(first, replace(kept_out, tags=("keep-out",))))
    await store_sources(ctx, book)
    report = await export(ctx, tmp_path / "export")
    assert (report.counts["passages"], report.left_out, report.incomplete) == (1, 1, [])
    await ingest_cleanly(ctx, tmp_path / "export")
    assert len(await read_chunks(ctx)) == 2
