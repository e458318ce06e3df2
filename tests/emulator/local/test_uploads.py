"""Files that a person adds in the console are read by the jobs of a laptop, and then deleted."""

import io
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest

from functions.jobs.ingest import uploads as upload_job
from functions.jobs.ingest.links import queue
from infra.local import uploads
from infra.local.inline import InlineDispatcher
from infra.local.scheduler import WakingDispatcher, get_upload_folder
from infra.local.uploads import LocalUploads
from shared.runtime.context import App, Context
from tests.support.console_app import (
    URL,
    make_console_client,
    parse_page,
    read_text,
    read_texts,
    select,
)
from tests.support.links import ESSAY, SITE_URL, make_link_fetcher, make_text_page, serve_site
from tests.support.scheduling import hurry, run_scheduler, wait_until
from tests.support.stored_documents import read_chunk_texts, read_documents

Parts = list[tuple[str, bytes]]
"""The names and the contents of the files of a form."""

BOUNDARY: Final = "----boundary"
FOUND: Final = "Search finds new texts in a minute or two."
NOTE: Final = b"Reef the mainsail early."


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state folder without a working process."""
    hurry(monkeypatch, tmp_path / "state")
    monkeypatch.setattr(uploads, "_POLL_SECONDS", 0.01)
    return tmp_path / "state"


@pytest.fixture
async def browser(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser on a laptop that runs jobs."""
    async with (
        run_scheduler(app),
        make_console_client(InlineDispatcher(app), LocalUploads()) as client,
    ):
        yield client


def make_form(token: str, parts: Parts) -> bytes:
    """Make the body of the form, with file names as they are."""
    body = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="form"\r\n\r\n{token}'.encode()]
    for name, content in parts:
        header = f'Content-Disposition: form-data; name="files"; filename="{name}"'
        body.append(f"--{BOUNDARY}\r\n{header}\r\n\r\n".encode() + content)
    return b"\r\n".join([*body, f"--{BOUNDARY}--\r\n".encode()])


async def read_token(browser: httpx2.AsyncClient) -> str:
    """Return the token of the page's forms."""
    [field, *_] = select(parse_page(await browser.get("/add")), "input[name=form]")
    token: str = field.get("value")
    return token


async def send(browser: httpx2.AsyncClient, body: bytes, origin: str = URL) -> httpx2.Response:
    """Send the body of a form with files."""
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    headers = {"origin": origin, "content-type": kind}
    return await browser.post("/add/files", content=body, headers=headers, timeout=60)


async def add(
    browser: httpx2.AsyncClient, *parts: tuple[str, bytes]
) -> tuple[list[str], list[str]]:
    """Add files. Return what the page says about them: the notice, and each problem."""
    response = await send(browser, make_form(await read_token(browser), list(parts)))
    page = parse_page(response)
    assert response.status_code == 200, read_texts(page, "[role=alert]")
    return read_texts(page, "[role=status] p"), read_texts(page, ".panel li")


async def refuse(browser: httpx2.AsyncClient, body: bytes, status: int = 400) -> str:
    """Send a form that is refused. Return the reason."""
    response = await send(browser, body)
    assert response.status_code == status
    [reason] = [text for text in read_texts(parse_page(response), "[role=alert]") if text]
    return reason


@contextmanager
def unchanged_state() -> Iterator[None]:
    """Check that no upload is left when the block ends."""
    yield
    assert list(get_upload_folder().glob("*")) == []


async def test_added_files_are_read_and_deleted(browser: httpx2.AsyncClient, ctx: Context) -> None:
    knots = ("Über Knoten.txt", b"A bowline holds.")
    notice, problems = await add(browser, ("reef.md", NOTE), knots)
    assert (notice, problems) == ([f"Read 2 files. {FOUND}"], [])
    assert await read_chunk_texts(ctx) == ["A bowline holds.", NOTE.decode()]
    assert list(get_upload_folder().iterdir()) == []
    sources = (await read_documents(ctx, "sources")).values()
    assert {source["title"] for source in sources} == {"reef", "Über Knoten"}


async def test_the_same_file_changes_nothing_and_an_edited_one_updates(
    browser: httpx2.AsyncClient, ctx: Context
) -> None:
    """Nothing disappears because an upload lacks it, or because a file is empty now."""
    await add(browser, ("reef.md", NOTE), ("knots.md", b"A bowline holds."))
    before = await read_documents(ctx, "sources")
    await add(browser, ("reef.md", NOTE))
    assert await read_documents(ctx, "sources") == before
    await add(browser, ("reef.md", b"Reef late."))
    _, problems = await add(browser, ("knots.md", b""))
    assert problems == ["knots.md: has no text"]
    assert await read_chunk_texts(ctx) == ["A bowline holds.", "Reef late."]
    assert len(await read_documents(ctx, "sources")) == 2


async def test_what_cannot_be_read_is_named_with_the_reason(
    browser: httpx2.AsyncClient, ctx: Context
) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("conversations.json", b" " * 300_000_000)
    notice, problems = await add(
        browser,
        ("reef.md", NOTE),
        ("photo.jpg", b"\xff\xd8\xff"),
        ("fake.pdf", b"MZ"),
        ("empty.txt", b""),
        ("bomb.zip", archive.getvalue()),
    )
    assert notice == [f"Read 5 files, except for the problems below. {FOUND}"]
    names = [problem.partition(":")[0] for problem in problems]
    assert sorted(names) == ["bomb.zip", "empty.txt", "fake.pdf", "photo.jpg"]
    assert await read_chunk_texts(ctx) == [NOTE.decode()]
    # The reasons stay on the page until the next upload.
    assert read_texts(parse_page(await browser.get("/add")), ".panel li") == problems
    assert (await add(browser, ("reef.md", NOTE)))[1] == []


async def test_what_was_read_with_a_problem_is_named_too(
    browser: httpx2.AsyncClient, ctx: Context
) -> None:
    content = b"---\ntitle: Reefing\njust words\n---\n" + NOTE
    notice, problems = await add(browser, ("reef.md", content))
    assert notice == [f"Read 1 file, except for the problems below. {FOUND}"]
    assert problems == ["reef.md (kept): line 3: not a `key: value` pair; line ignored"]
    assert await read_chunk_texts(ctx) == [NOTE.decode()]


@pytest.mark.parametrize(
    "name", ["../../reef.md", "/etc/reef.md", "C:\\notes\\reef.md", "..\\reef.md", "a/../reef.md"]
)
async def test_only_the_last_part_of_a_name_counts(
    browser: httpx2.AsyncClient, ctx: Context, state: Path, name: str
) -> None:
    await add(browser, (name, NOTE))
    assert {path.name for path in state.parent.rglob("reef.md")} == set()
    [source] = (await read_documents(ctx, "sources")).values()
    assert source["title"] == "reef"


@pytest.mark.parametrize("name", ["..", "notes/", "a\0b.md", "x" * 300 + ".md"])
async def test_a_name_that_no_file_can_have_is_refused(
    browser: httpx2.AsyncClient, ctx: Context, name: str
) -> None:
    with unchanged_state():
        reason = await refuse(browser, make_form(await read_token(browser), [(name, NOTE)]))
    assert "Nothing was added." in reason
    assert await read_chunk_texts(ctx) == []


async def test_two_files_with_one_name_are_refused(browser: httpx2.AsyncClient) -> None:
    parts = [("a/reef.md", NOTE), ("b/reef.md", b"Another.")]
    with unchanged_state():
        reason = await refuse(browser, make_form(await read_token(browser), parts))
    assert reason.startswith("Two files have the name “reef.md”.")


async def test_an_upload_that_is_cut_off_adds_nothing(
    browser: httpx2.AsyncClient, ctx: Context
) -> None:
    body = make_form(await read_token(browser), [("reef.md", NOTE)])
    with unchanged_state():
        for end in (-4, -len(BOUNDARY), 60):
            assert "cut off" in await refuse(browser, body[:end])
        assert "cut off" in await refuse(browser, b"garbage")
    assert await read_chunk_texts(ctx) == []


async def test_too_many_or_too_large_files_are_refused(
    browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalUploads, "max_files", 2)
    monkeypatch.setattr(LocalUploads, "max_bytes", 1_000)
    token = await read_token(browser)
    many: Parts = [(f"{number}.md", b"") for number in range(3)]
    with unchanged_state():
        assert "At most 2 files" in await refuse(browser, make_form(token, many))
        large = make_form(token, [("reef.md", b"x" * 1_000)])
        assert "MB in total" in await refuse(browser, large)
        assert "Choose one or more files" in await refuse(browser, make_form(token, [("", b"")]))


async def test_a_form_of_another_page_adds_nothing(
    browser: httpx2.AsyncClient, ctx: Context
) -> None:
    with unchanged_state():
        await refuse(browser, make_form("wrong", [("reef.md", NOTE)]), 403)
    body = make_form(await read_token(browser), [("reef.md", NOTE)])
    for origin in ("https://example.com", "null"):
        assert (await send(browser, body, origin)).status_code == 403
    assert await read_chunk_texts(ctx) == []


async def test_a_fault_of_a_reader_stops_only_one_run(
    browser: httpx2.AsyncClient, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Iterator[object]:
        raise RuntimeError("a fault of a reader")

    with monkeypatch.context() as patch:
        patch.setattr(upload_job, "read_files", fail)
        _, problems = await add(browser, ("reef.md", NOTE))
    assert problems == ["upload: could not be read, because of a fault in Carrel"]
    await add(browser, ("reef.md", NOTE))
    assert await read_chunk_texts(ctx) == [NOTE.decode()]


async def test_an_upload_waits_for_a_process_that_runs_jobs(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_WAIT_SECONDS", 0.05)
    async with make_console_client(InlineDispatcher(app), LocalUploads()) as client:
        notice, _ = await add(client, ("reef.md", NOTE))
    assert notice == ["Received 1 file. Reading goes on: reload this page later."]

    async def is_read() -> bool:
        return await read_chunk_texts(ctx) == [NOTE.decode()]

    async with run_scheduler(app):
        await wait_until(is_read)


async def test_without_uploads_the_page_says_what_to_do(app: App) -> None:
    async with make_console_client(InlineDispatcher(app)) as client:
        page = parse_page(await client.get("/add"))
        assert select(page, "#upload") == []
        [panel] = [text for text in read_texts(page, ".panel") if text.startswith("Files")]
        assert "ingest PATH" in panel
        assert "INGEST_BUCKET" in panel
        await refuse(client, make_form(await read_token(client), [("reef.md", NOTE)]), 403)


async def test_links_in_an_added_file_are_fetched_by_a_button(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are only counted until somebody asks for their pages."""
    bookmarks = (
        "<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><p>"
        f'<DT><A HREF="{SITE_URL}/essay">On Reefing</A></DL>'
    )
    with serve_site(essay=make_text_page(ESSAY)) as site:
        monkeypatch.setattr(queue, "SafeFetch", lambda _: make_link_fetcher(site))
        dispatcher = WakingDispatcher(InlineDispatcher(app))
        async with (
            run_scheduler(app),
            make_console_client(dispatcher, LocalUploads()) as browser,
        ):
            [notice], _ = await add(browser, ("bookmarks.html", bookmarks.encode()))
            assert notice.endswith("Links wait below until you fetch them.")
            page = parse_page(await browser.get("/add"))
            assert "1 link from bookmarks and reading lists" in read_text(page)
            assert await read_chunk_texts(ctx) == []
            fields = {"form": await read_token(browser), "action": "fetch"}
            response = await browser.post("/add", data=fields, headers={"origin": URL})
            [notice] = read_texts(parse_page(response), "[role=status] p")
            assert notice == "1 page will be fetched, one after the other."

            async def is_stored() -> bool:
                return bool(await read_chunk_texts(ctx))

            await wait_until(is_stored)
