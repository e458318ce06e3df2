"""Links between ingested notes are stored, and lead to the sources of the linked files.

A vault is a folder of Obsidian, in which notes link to each other by name: `[[Rye]]`.
"""

from pathlib import Path

import pytest

from functions.jobs.cards.job import cards
from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from functions.tools.knowledge.get_source.tool import In as GetSourceIn
from functions.tools.knowledge.get_source.tool import get_source
from functions.tools.knowledge.search_kb.tool import In as SearchIn
from functions.tools.knowledge.search_kb.tool import search_kb
from shared.core.caller import Caller, Role
from shared.runtime.context import App, Context
from tests.support.ingest_runs import run_ingest
from tests.support.jobs import make_ample_budget
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

OWNER = Caller.of("anna", role=Role.OWNER)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A vault with two notes that link to each other."""
    write_file(tmp_path, "Vault/.obsidian/app.json", "{}")
    write_file(tmp_path, "Vault/Templates/daily.md", "A template.")
    write_file(tmp_path, "Vault/Grain/Rye.md", "---\naliases: [Roggen]\n---\nSee [[Sourdough]].")
    write_file(
        tmp_path,
        "Vault/Sourdough.md",
        "---\nauthor: '[[Ida Loaf]]'\ntags: [baking]\ndate: 2024-05-31\n---\n%% draft %%\n"
        "- [ ] Feed the **starter** of [[roggen|rye flour]] twice a day. ^37066d\n![[jar.png]]\n",
    )
    return tmp_path / "Vault"


async def ingest_and_count(ctx: Context) -> dict[str, int]:
    """Ingest the folder, and return the counts of the report, except `read`."""
    report = await run_ingest(ctx)
    assert report.failures == []
    return {name: count for name, count in report.counts.items() if name != "read"}


async def read_links_by_title(ctx: Context) -> dict[str, list[str]]:
    """Return, by the title of each source, the titles of the sources that it links to."""
    source_ids = sorted(await read_documents(ctx, "sources"))
    outs = [await get_source(GetSourceIn(source_id=source_id), ctx) for source_id in source_ids]
    return {out.title: [linked.title for linked in out.links_to] for out in outs}


@pytest.mark.usefixtures("vault")
async def test_a_note_of_a_vault_is_found_with_its_links(ctx: Context) -> None:
    await ingest_and_count(ctx)
    for job in (embed, cards, index):
        await job(ctx, make_ample_budget())

    arguments = SearchIn.model_validate(
        {"query": "feed the starter", "filters": {"tags": ["baking"]}}
    )
    hit = (await search_kb(arguments, ctx)).results[0]
    assert hit.title == "Sourdough"
    assert hit.author == "Ida Loaf"
    assert hit.date == "written 2024-05-31"
    assert hit.tags == ["baking"]
    assert hit.snippet == "- Feed the starter of rye flour twice a day."

    out = await get_source(GetSourceIn(source_id=hit.source_id), ctx)
    assert [chunk.text for chunk in out.chunks] == [
        "- [ ] Feed the **starter** of rye flour twice a day."
    ]
    assert [linked.title for linked in out.links_to] == ["Rye"]
    assert [linking.title for linking in out.linked_from] == ["Rye"]
    assert len(await read_documents(ctx, "sources")) == 2  # the template is not ingested


async def test_links_follow_a_renamed_note(ctx: Context, vault: Path) -> None:
    await ingest_and_count(ctx)
    before = await read_documents(ctx, "sources")
    (vault / "Grain/Rye.md").rename(vault / "Secale.md")
    text = (vault / "Sourdough.md").read_text()
    write_file(vault, "Sourdough.md", text.replace("[[roggen|", "[[Secale|"))
    await ingest_and_count(ctx)
    after = await read_documents(ctx, "sources")
    assert after.keys() == before.keys()
    assert await read_links_by_title(ctx) == {"Secale": ["Sourdough"], "Sourdough": ["Secale"]}


async def test_a_link_by_path_appears_when_its_file_is_ingested(
    ctx: Context, tmp_path: Path
) -> None:
    write_file(tmp_path, "notes/a.md", "See [the other](b.md).")
    await ingest_and_count(ctx)
    assert await read_links_by_title(ctx) == {"a": []}
    write_file(tmp_path, "notes/b.md", "Words.")
    assert await ingest_and_count(ctx) == {"sources": 1, "created": 1}
    assert await read_links_by_title(ctx) == {"a": ["b"], "b": []}


async def test_a_link_by_name_appears_when_its_file_is_ingested(ctx: Context, vault: Path) -> None:
    write_file(vault, "Plan.md", "Then [[Bake]].")
    await ingest_and_count(ctx)
    assert (await read_links_by_title(ctx))["Plan"] == []
    write_file(vault, "Later/bake.md", "Words.")
    await ingest_and_count(ctx)
    assert (await read_links_by_title(ctx))["Plan"] == ["bake"]


async def test_a_changed_link_changes_only_its_source(ctx: Context, vault: Path) -> None:
    write_file(vault, "Plan.md", "Next: [[Rye|this]].")
    await ingest_and_count(ctx)
    write_file(vault, "Plan.md", "Next: [[Sourdough|this]].")
    before = await read_chunks(ctx)

    assert await ingest_and_count(ctx) == {"sources": 1}
    assert await read_chunks(ctx) == before
    assert (await read_links_by_title(ctx))["Plan"] == ["Sourdough"]

    write_file(vault, "Plan.md", "Next: this.")
    assert await ingest_and_count(ctx) == {"sources": 1}
    sources = (await read_documents(ctx, "sources")).values()
    assert [data["title"] for data in sources if data.get("links_to") is None] == ["Plan"]


@pytest.mark.usefixtures("vault")
async def test_links_follow_forgotten_restored_and_edited_notes(app: App, ctx: Context) -> None:
    await ingest_and_count(ctx)
    ids = {data["title"]: name for name, data in (await read_documents(ctx, "sources")).items()}

    arguments = {"source_id": ids["Sourdough"], "revision": 0, "title": "Bread"}
    await call_result(app, "edit_source", OWNER, **arguments)
    await ingest_and_count(ctx)
    assert await read_links_by_title(ctx) == {"Rye": ["Bread"], "Bread": ["Rye"]}

    await call_result(app, "forget", OWNER, source_id=ids["Rye"])
    assert await read_links_by_title(ctx) == {"Bread": []}
    out = await get_source(GetSourceIn(source_id=ids["Sourdough"]), ctx)
    assert out.linked_from == []

    await call_result(app, "forget", OWNER, source_id=ids["Rye"], forgotten=False)
    assert await read_links_by_title(ctx) == {"Rye": ["Bread"], "Bread": ["Rye"]}


async def test_the_text_of_an_emptied_note_is_deleted(ctx: Context, vault: Path) -> None:
    await ingest_and_count(ctx)
    write_file(vault, "Sourdough.md", "---\ntags: [baking]\n---\n")
    await ingest_and_count(ctx)
    assert [chunk["title"] for chunk in (await read_chunks(ctx)).values()] == ["Rye"]
