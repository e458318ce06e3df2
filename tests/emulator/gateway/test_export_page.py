"""The console's page for export sends an archive while it is written."""

import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import httpx2
import pytest

from functions.gateway.access import Access
from infra.export import archive, exporting
from infra.export.archive import ROOT, stream_export
from infra.export.exporting import export_all
from infra.local.inline import InlineDispatcher
from shared.core.caller import Caller, Role
from shared.runtime.context import App
from tests.support.console_app import (
    URL,
    make_console_client,
    open_signed_in_console,
    parse_page,
    read_text,
    select,
)
from tests.support.folder_comparison import find_differing_files
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.tool_calls import call_result

LOCAL, OTHER = Caller.of("local", role=Role.OWNER), Caller.of("other")


@pytest.fixture
async def browser(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser on a laptop whose base has two sources, one kept out, and reviews of two users."""
    monkeypatch.setattr(archive, "_PAUSE", 0.001)
    monkeypatch.setattr(exporting, "_SOURCES_PER_READ", 1)
    chunks = await store_sources(
        make_job_context(app), BAKING, replace(SAILING, tags=("keep-out",))
    )
    for caller, chunk in ((LOCAL, chunks[0]), (OTHER, chunks[1])):
        answer = {"chunk_id": chunk.chunk_id, "answer": "keep"}
        await call_result(app, "answer_review", caller, **answer)
    export = partial(stream_export, app, tmp_path / "state" / "exports")
    async with make_console_client(InlineDispatcher(app), stream_export=export) as client:
        yield client


async def download(browser: httpx2.AsyncClient) -> httpx2.Response:
    """Press the button of the page."""
    [form] = select(parse_page(await browser.get("/export")), "form[action=/export]")
    return await browser.post("/export", data=dict(form.fields), headers={"origin": URL})


async def test_the_archive_has_the_files_of_carrel_export(
    browser: httpx2.AsyncClient, app: App, tmp_path: Path
) -> None:
    response = await download(browser)
    assert response.headers["content-disposition"] == 'attachment; filename="carrel-export.zip"'
    ZipFile(io.BytesIO(response.content)).extractall(tmp_path)
    (tmp_path / "command").mkdir()
    database = make_job_context(app).database
    await export_all(
        database, tmp_path / "command", "local", lambda _: None, app.zone, with_kept_out=True
    )
    assert find_differing_files(tmp_path / ROOT, tmp_path / "command") == []
    [review] = map(json.loads, (tmp_path / ROOT / "reviews.jsonl").read_text().splitlines())
    assert review["chunk_id"].startswith(BAKING.source_id)


@pytest.mark.usefixtures("browser")
async def test_an_export_that_fails_is_no_archive(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exporting, "build_end_line", None)
    parts = b""

    async def read_parts() -> None:
        nonlocal parts
        async for part in stream_export(app, tmp_path, "local"):
            parts += part

    with pytest.raises(TypeError):
        await read_parts()
    with pytest.raises(BadZipFile):
        ZipFile(io.BytesIO(parts))


async def test_only_an_owner_exports(app: App, access: Access) -> None:
    async with open_signed_in_console(access, InlineDispatcher(app)) as browser:
        response = await browser.get("/export")
    assert response.status_code == 403
    assert "Only an owner" in read_text(parse_page(response))


async def test_a_deployment_names_the_command(app: App) -> None:
    async with make_console_client(InlineDispatcher(app)) as browser:
        page = parse_page(await browser.get("/export"))
    assert "carrel export FOLDER" in read_text(page)
