"""The reader shows a source of a followed folder as its file looks, and says where the file is."""

from functools import partial
from pathlib import Path

import pytest
from lxml.html import HtmlElement

from functions.gateway.console.visits import FindFile
from infra.local.inline import InlineDispatcher
from shared.knowledge.followed import find_followed_file
from shared.runtime.context import App, Context
from tests.support.console_app import make_console_client, parse_page, read_texts, select
from tests.support.followed_folder import ingest_cleanly
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks


@pytest.fixture
async def folder(ctx: Context, tmp_path: Path) -> Path:
    """A followed folder with the same text as Markdown and as plain text."""
    for name in ("note.md", "note.txt"):
        write_file(tmp_path, name, f"Of {name}: a **starter** needs\n\n- flour")
    await ingest_cleanly(ctx, tmp_path)
    return tmp_path


async def open_reader(
    app: App, ctx: Context, name: str, find_file: FindFile | None = None
) -> HtmlElement:
    """Open the source of a file at its passage, in which a search found a word."""
    chunks = (await read_chunks(ctx)).items()
    [(chunk_id, chunk)] = [item for item in chunks if name in item[1]["content"]]
    async with make_console_client(InlineDispatcher(app), find_file=find_file) as client:
        query = {"passage": chunk_id, "found": "starter"}
        return parse_page(await client.get(f"/sources/{chunk['source_id']}", params=query))


@pytest.mark.usefixtures("folder")
async def test_only_markdown_is_rendered_and_words_found_are_marked(app: App, ctx: Context) -> None:
    markdown, plain = [await open_reader(app, ctx, name) for name in ("note.md", "note.txt")]
    assert read_texts(markdown, ".open .text strong mark") == ["starter"]
    assert read_texts(markdown, ".open .text li") == ["flour"]
    assert read_texts(plain, ".open .text mark") == ["starter"]
    assert read_texts(plain, ".open .text p")[1] == "- flour"


async def test_the_path_of_the_file_is_shown_where_the_file_is(
    app: App, ctx: Context, folder: Path
) -> None:
    find_file = partial(find_followed_file, database=ctx.database)
    here = await open_reader(app, ctx, "note.md", find_file)
    path = str(folder / "note.md")
    assert [code.text for code in select(here, "header code")] == [path]
    assert [button.get("data-copy") for button in select(here, "header button[data-copy]")] == [
        path
    ]
    elsewhere = await open_reader(app, ctx, "note.md")
    assert "note.md" not in "".join(read_texts(elsewhere, "header"))
