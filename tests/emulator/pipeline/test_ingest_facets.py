"""Ingest gives passages the folder of their file and the language of their text."""

from pathlib import Path

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.runtime.context import Context
from tests.support.ingest_runs import run_ingest
from tests.support.knowledge import index_all
from tests.support.source_files import write_file


async def list_titles(ctx: Context, **filters: str) -> list[str]:
    return sorted(hit.title for hit in (await search_kb(In(filters=filters), ctx)).results)


async def test_a_file_is_found_by_its_folder_and_its_language(ctx: Context, tmp_path: Path) -> None:
    """What the file says of its language is true of all its passages."""
    write_file(tmp_path, "recipes/Brot.md", "Der Teig wird geknetet und dann nicht mehr gerührt.")
    write_file(tmp_path, "recipes/rye/Bread.md", "The dough is kneaded, and then it is left alone.")
    write_file(tmp_path, "Log.md", "---\nlang: de\n---\nThe noon watch was quiet, and so was I.")
    assert (await run_ingest(ctx)).failures == []
    await index_all(ctx)
    root = tmp_path.name
    assert await list_titles(ctx, language="de") == ["Brot", "Log"]
    assert await list_titles(ctx, language="-de") == ["Bread"]
    assert await list_titles(ctx, folder=f"{root}/recipes") == ["Bread", "Brot"]
    assert await list_titles(ctx, folder=f"{root}/recipes", language="en") == ["Bread"]
    assert await list_titles(ctx, folder=f"-{root}/recipes/rye") == ["Brot", "Log"]

    out = await search_kb(In(filters={"language": "sv"}), ctx)
    assert out.message == "There is no language 'sv'. There are: de, en."
