"""The browser extension saves pages with a key that reads nothing, and nobody else does."""

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from functions.gateway.access import Access
from functions.gateway.console.app import make_console_app
from functions.gateway.console.local_services import LocalServices
from functions.gateway.console.saving import MAX_PAGE_BYTES
from infra.local.inline import InlineDispatcher
from shared.accounts.access_key import new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.revocation import revoke_key
from shared.core.caller import FULL_ACCESS, Caller, Role, Scope
from shared.core.settings import Settings
from shared.pipeline.forgotten_list import list_removed_by_run
from tests.examples.catalog import EXAMPLES
from tests.support.clock import NOON
from tests.support.commit_hooks import WatchedApp
from tests.support.console_app import (
    CATALOG,
    answer_with,
    make_app,
    open_signed_in_console,
    parse_page,
    read_texts,
    select,
)
from tests.support.database_dump import read_all_documents, summarize
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, chunk_source, index_all, store_sources
from tests.support.links import SITE_URL, fetch_due_links, serve_site
from tests.support.mcp_wire import HEADERS, make_call, make_request
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_result
from tests.support.web_pages import PROSE, make_article_page

PATH = "/save/page"
URL = f"{SITE_URL}/essay"
PAGE = {"url": URL, "title": "Reefing early", "html": make_article_page(URL), "text": ""}
EXTENSION = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"
SAVE_ONLY = frozenset({Scope.SAVE})
ADA = Caller.of("ada", role=Role.OWNER)
BROWSER = {"accept": "text/html"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings without limits that these tests would reach."""
    return settings.model_copy(update={"reads_per_minute": 9_999, "writes_per_minute": 9_999})


@pytest.fixture
async def gateway(access: Access, app: WatchedApp) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway that requires sign-in, where Ada is an owner."""
    await AccessStore(access.connection).accounts.set_role("ada", Role.OWNER)
    transport = httpx2.ASGITransport(make_app(access, InlineDispatcher(app)))
    async with httpx2.AsyncClient(
        transport=transport, base_url=access.settings.public_url
    ) as client:
        yield client


async def make_key(
    access: Access, scopes: frozenset[Scope] = SAVE_ONLY, expires_at: datetime | None = None
) -> str:
    """Store a key of Ada's, and return its text."""
    text, key = new_key(
        access.keyring, "ada", "extension", scopes, created_at=NOON, expires_at=expires_at
    )
    await AccessStore(access.connection).keys.add(key)
    return text


async def post(
    gateway: httpx2.AsyncClient, key: str | None, body: Any = PAGE, /, **headers: str
) -> httpx2.Response:
    """Send a page as the extension does, with other headers."""
    credential = {"authorization": f"Bearer {key}"} if key else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await gateway.post(PATH, json=body, headers={"origin": EXTENSION, **credential, **named})


async def dump(app: WatchedApp) -> dict[str, Any]:
    return summarize(await read_all_documents(app.connection.client))


async def test_a_page_and_the_selection_are_saved(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp
) -> None:
    """What is saved of a stored page becomes a note about it. No HTML comes back."""
    key = await make_key(access)
    hostile = PAGE["html"].replace("<p>", "<p>&lt;script>alert(1)&lt;/script> <script>x()</script>")
    saved = await post(gateway, key, PAGE | {"html": hostile})
    assert (saved.status_code, saved.headers["content-type"]) == (200, "application/json")
    assert saved.json().keys() == {"source_id", "message"}
    ctx = make_job_context(app)
    with serve_site() as site:
        await fetch_due_links(ctx, site)
    await index_all(ctx)
    selected = await post(gateway, key, PAGE | {"text": "A reef costs a minute."})
    assert (selected.status_code, selected.json()["can_replace"]) == (409, True)
    assert selected.json()["message"] == (
        "The selection was saved, but not the page. This page is stored already, and was not"
        " replaced."
    )
    [note] = (await call_result(app, "list_sources", ADA, category="note"))["sources"]
    about = await call_result(app, "get_source", ADA, source_id=note["source_id"])
    assert saved.json()["source_id"] in str(about)
    assert "Reefing early" in str(about)

    async with open_signed_in_console(access, InlineDispatcher(app)) as browser:
        page = await browser.get(f"/sources/{saved.json()['source_id']}")
    assert "&lt;script&gt;alert(1)" in page.text
    assert all("src" in script.attrib for script in select(parse_page(page), "script"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:8080"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8080"}, 421),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "multipart/form-data; boundary=x"}, 415),
    ],
    ids=str,
)
async def test_no_web_page_saves_even_with_the_key(
    gateway: httpx2.AsyncClient,
    access: Access,
    app: WatchedApp,
    headers: dict[str, str],
    status: int,
) -> None:
    response = await post(gateway, await make_key(access), **headers)
    assert response.status_code == status
    assert response.json().keys() == {"message"}
    assert await dump(app) == {}


async def test_a_preflight_allows_no_origin(gateway: httpx2.AsyncClient) -> None:
    for origin in ("https://evil.example", "null", EXTENSION):
        response = await gateway.options(
            PATH,
            headers={
                "origin": origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,content-type",
            },
        )
        assert response.status_code == 405
        assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_only_a_valid_save_only_key_saves(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp
) -> None:
    revoked, expired = await make_key(access), await make_key(access, expires_at=NOON)
    await revoke_key(AccessStore(access.connection), revoked.split("_")[1])
    full, mixed = await make_key(access, FULL_ACCESS), await make_key(access, frozenset(Scope))
    wrong = {None: 401, "carrel_x": 401, "a.b.c": 401, revoked: 401, expired: 401}
    for key, status in {**wrong, full: 403, mixed: 403}.items():
        response = await post(gateway, key)
        assert response.status_code == status, key
        assert full not in response.text
    key = await make_key(access, expires_at=NOON + timedelta(days=1))
    assert (await gateway.post(f"{PATH}?key={key}", json=PAGE)).status_code == 401
    assert (await post(gateway, None, cookie=f"carrel-session={key}")).status_code == 401
    assert await dump(app) == {}
    assert (await post(gateway, key)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [[], "page", {}, {"url": URL}, {"url": 1, "html": "x"}, PAGE | {"html": None}],
    ids=repr,
)
async def test_another_body_is_refused(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp, body: Any
) -> None:
    assert (await post(gateway, await make_key(access), body)).status_code == 400
    assert await dump(app) == {}


async def test_a_huge_body_is_refused(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp
) -> None:
    """Without a valid key, no part of it is read."""
    key = await make_key(access)
    parts: list[int] = []

    async def send_parts() -> AsyncIterator[bytes]:
        for number in range(20):
            parts.append(number)
            yield b" " * 1_000_000

    async def upload(credential: str) -> int:
        headers = {"content-type": "application/json", "authorization": f"Bearer {credential}"}
        return (await gateway.post(PATH, content=send_parts(), headers=headers)).status_code

    assert await upload(key) == 413
    assert (await post(gateway, key, PAGE | {"html": "x" * MAX_PAGE_BYTES})).status_code == 413
    assert await upload("carrel_x") == 401
    assert await dump(app) == {}


async def test_a_reader_saves_nothing(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp
) -> None:
    await AccessStore(access.connection).accounts.set_role("ada", Role.READER)
    key = await make_key(access)
    for page in (PAGE, PAGE | {"text": "A reef."}):
        response = await post(gateway, key, page)
        assert response.status_code == 403
        assert "role" in response.json()["message"]
    assert await dump(app) == {}


async def test_a_failure_says_what_was_saved(gateway: httpx2.AsyncClient, access: Access) -> None:
    key = await make_key(access)
    page = PAGE | {"url": "http://intranet:8443/wiki", "text": "A reef costs a minute."}
    response = await post(gateway, key, page)
    assert response.status_code == 400
    assert response.json()["message"] == (
        "The selection was saved, but not the page. The address: not the address of a web page that"
        " can be saved."
    )


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("A\u00ad ree\u200bf.", "A reef."),
        ("A reef.\fA sail.", "A reef.\nA sail."),
        ("A reef. " * 1_100, ("A reef. " * 1_000).strip()),
        ("\u200b", None),
    ],
    ids=["invisible", "form feed", "long", "blank"],
)
async def test_a_selection_is_cleaned_and_cut(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp, text: str, stored: str | None
) -> None:
    page = PAGE | {"text": text, "title": "Reef\u00ading"}
    response = await post(gateway, await make_key(access), page)
    assert response.status_code == 200
    assert ("first 8,000" in response.json()["message"]) == (len(text) > 8_000)
    notes = (await read_documents(make_job_context(app), "sources")).values()
    assert [(note["text"], note["title"]) for note in notes] == (
        [(stored, "Reefing")] if stored else []
    )


async def test_a_save_only_key_destroys_nothing(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp
) -> None:
    """It replaces a stored page only on request, only for an owner, and it can be restored."""
    key, ctx = await make_key(access), make_job_context(app)
    saved = await post(gateway, key)
    wall = PAGE | {"html": PAGE["html"].replace(PROSE, "Sign in to continue. " * 20)}
    assert (await post(gateway, key, wall)).status_code == 409
    with serve_site() as site:
        await fetch_due_links(ctx, site)
        assert (await post(gateway, key, wall)).json()["can_replace"]
        await AccessStore(access.connection).accounts.set_role("ada", Role.EDITOR)
        assert (await post(gateway, key, wall | {"replace": True})).status_code == 403
        await AccessStore(access.connection).accounts.set_role("ada", Role.OWNER)
        assert (await post(gateway, key, wall | {"replace": True})).status_code == 200
        report = await fetch_due_links(ctx, site)
    assert report.removed_at
    for item in await list_removed_by_run(ctx.database, report.removed_at):
        await call_result(app, "forget", ADA, chunk_id=item.chunk_id, forgotten=False)
    source = await call_result(app, "get_source", ADA, source_id=saved.json()["source_id"])
    assert PROSE[:50] in str(source["chunks"])


async def test_a_save_only_key_reads_nothing(
    gateway: httpx2.AsyncClient, access: Access, app: WatchedApp
) -> None:
    """Whatever the route, the header and the method, the key changes no answer of the gateway."""
    await store_sources(make_job_context(app), BAKING)
    [chunk, *_] = chunk_source(BAKING).chunks
    before = await dump(app)
    key = await make_key(access)
    credentials: list[dict[str, str]] = [
        {"authorization": f"Bearer {key}"},
        {"authorization": f"Bearer task@{key}"},
        {"x-api-key": key},
    ]
    console = make_console_app(
        access, CATALOG, access.make_pipeline(answer_with()), LocalServices()
    )
    app_routes = make_app(access, InlineDispatcher(app)).routes
    ids = {"source_id": "baking", "chunk_id": chunk.chunk_id, "cluster_id": "c", "name": "map.js"}
    paths = {
        re.sub(r"\{(\w+)(?::path)?\}", lambda match: ids.get(match[1], ""), route.path)
        for route in [*console.routes, *app_routes]
        if isinstance(route, Route)
    }
    assert len(paths) > 30
    for path in sorted(paths - {PATH, "/mcp", "/mcp/"}):
        for method in ("GET", "POST"):
            plain = await gateway.request(method, path, headers=BROWSER)
            assert chunk.content not in plain.text
            for headers in credentials:
                answer = await gateway.request(method, path, headers=BROWSER | headers)
                assert answer.status_code == plain.status_code, (method, path)
                assert chunk.content not in answer.text
    messages = [make_call(name, example.arguments) for name, example in EXAMPLES.items()]
    methods = ("initialize", "ping", "tools/list", "resources/list", "prompts/list", "no/such")
    messages += [make_request(method) for method in methods]
    for message in messages:
        for headers in credentials:
            answer = await gateway.post("/mcp", json=message, headers=HEADERS | headers)
            assert answer.status_code == 403, message
    assert await dump(app) == before


async def test_a_save_only_key_is_no_sign_in(gateway: httpx2.AsyncClient, access: Access) -> None:
    consent = await gateway.get("/you", follow_redirects=True)
    form = dict(parse_page(consent).forms[0].form_values())
    form |= {"key": await make_key(access), "decision": "allow"}
    response = await gateway.post("/consent", data=form)
    assert response.status_code == 403
    assert "may only save pages" in response.text


async def test_opening_the_form_writes_nothing(access: Access, app: WatchedApp) -> None:
    async with open_signed_in_console(access, InlineDispatcher(app), "ada") as browser:
        page = await browser.get("/save?url=https://boats.example/&text=Mine")
        assert page.status_code == 200
        assert "boats.example" not in page.text
        origin = {"origin": access.settings.public_url}
        fields = {"url": "https://boats.example/"}
        for headers in (origin, {"origin": "null"}, {"origin": "https://evil.example"}):
            refused = await browser.post("/save", data=fields, headers=headers)
            assert refused.status_code == 403
    assert await dump(app) == {}


async def test_the_form_saves_a_link_or_what_was_selected(access: Access, app: WatchedApp) -> None:
    await AccessStore(access.connection).accounts.set_role("ada", Role.EDITOR)
    origin = {"origin": access.settings.public_url}
    async with open_signed_in_console(access, InlineDispatcher(app), "ada") as browser:

        async def save(**fields: str) -> httpx2.Response:
            [form] = select(parse_page(await browser.get("/save")), "form#save")
            return await browser.post(
                "/save", data=dict(form.form_values()) | fields, headers=origin
            )

        saved = await save(url=URL, title="Ignored for a link", text=" ")
        assert "Saved." in read_texts(parse_page(saved), "[role=status]")[0]
        [link] = (await read_documents(make_job_context(app), "links")).values()
        assert (link["url"], link["title"]) == (URL, None)
        saved = await save(url=URL, title="Reefing early", text="A reef costs a minute.")
        assert "Undo" in read_texts(parse_page(saved), "[role=status]")[0]
        [note] = (await call_result(app, "list_sources", ADA, category="note"))["sources"]
        assert note["title"] == "Reefing early"
        refused = await save(url="ftp://boats.example", text="Yawls & <b>sloops</b>")
        assert refused.status_code == 400
        assert read_texts(parse_page(refused), "textarea") == ["Yawls & <b>sloops</b>"]


async def test_a_laptop_makes_and_revokes_a_save_only_key(access: Access, app: WatchedApp) -> None:
    """Nobody signs in there, and the key is the owner's. No other key can be made."""
    settings = access.settings.model_copy(update={"local_user": "local"})
    laptop = Access(settings, access.clock)
    transport = httpx2.ASGITransport(make_app(laptop, InlineDispatcher(app)))
    origin = {"origin": settings.public_url}
    async with httpx2.AsyncClient(transport=transport, base_url=settings.public_url) as client:
        [*_, form] = parse_page(await client.get("/you")).forms
        fields = dict(form.form_values()) | {"name": "Firefox"}
        for scope in ("carrel:read", "carrel:curate"):
            forged = await client.post("/you/key", data=fields | {"scope": scope}, headers=origin)
            assert forged.status_code == 403
        assert (await client.post("/you/key", data=fields)).status_code == 403
        made = await client.post("/you/key", data=fields, headers=origin)
        [key] = read_texts(parse_page(made), "[data-secret]")
        assert (await post(client, None)).status_code == 401
        assert (await post(client, key)).status_code == 200
        refused = await client.post(
            "/mcp", json=make_request("tools/list"), headers=HEADERS | {"x-api-key": key}
        )
        assert refused.status_code == 403

        page = parse_page(await client.get("/you"))
        assert read_texts(page, ".rows strong") == ["Firefox"]
        fields = dict(page.forms[1].form_values())
        assert (await client.post("/you", data=fields, headers=origin)).status_code == 200
        assert (await post(client, key)).status_code == 401
    await laptop.aclose()
