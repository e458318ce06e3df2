"""Every response of the console has the headers of its pages, whatever the method and the host."""

import re
from collections.abc import Iterator

import pytest
from starlette.routing import Route

from functions.gateway.console.app import make_console_app
from functions.gateway.console.local_services import LocalServices
from functions.gateway.console.rendering import PAGE_HEADERS
from functions.gateway.console.routes import SECTIONS
from tests.support.console_app import (
    CATALOG,
    answer_with,
    make_access,
    make_answering_client,
    make_console_client,
    parse_page,
    read_texts,
    select,
)

BROWSER = {"accept": "text/html,*/*;q=0.8"}


def list_paths() -> Iterator[str]:
    """Yield a path of every route, and of an address in each section that no route has."""
    access = make_access()
    console = make_console_app(
        access, CATALOG, access.make_pipeline(answer_with()), LocalServices()
    )
    for route in console.routes:
        assert isinstance(route, Route)
        yield re.sub(r"\{\w+\}", "console.css", route.path)
    yield from (f"/{section}/no/such/page" for section in SECTIONS)


PATHS = sorted(set(list_paths()))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"x-forwarded-for": "203.0.113.7"},
    ],
    ids=["own", "host", "origin", "proxy"],
)
async def test_every_response_has_the_headers_of_pages(path: str, headers: dict[str, str]) -> None:
    """But a post to `/` is answered in JSON by the gateway: a client left out the path of MCP."""
    methods = ["GET", "HEAD"] if path == "/" else ["GET", "HEAD", "POST", "PUT", "OPTIONS"]
    async with make_answering_client() as client:
        for method in methods:
            response = await client.request(method, path, headers=headers)
            for name, value in PAGE_HEADERS.items():
                assert response.headers[name] == value, (method, name)


async def test_a_page_counts_the_documents_that_all_its_calls_read() -> None:
    dispatcher = answer_with()
    async with make_console_client(dispatcher) as client:
        page = parse_page(await client.get("/"))
    assert len(dispatcher.calls) == 3  # the fake says that each read seven
    assert "21 documents read" in read_texts(page, ".facts")[-1]


@pytest.mark.parametrize("query", ["", "?q=two+words&tag=%E8%AA%AD"])
async def test_the_address_that_people_guess_leads_to_the_search(query: str) -> None:
    async with make_answering_client() as client:
        response = await client.get(f"/search{query}")
    assert (response.status_code, response.headers["location"]) == (303, f"/{query}")


@pytest.mark.parametrize("path", ["/nothing", "/serach?q=x", "/.well-known/nothing"])
async def test_an_unknown_address_is_a_page_only_for_a_browser(path: str) -> None:
    async with make_answering_client() as client:
        page = parse_page(await client.get(path, headers=BROWSER))
        answers = [
            await client.get(path, headers={"accept": "*/*"}),
            await client.get(path, headers={"accept": "application/json, text/event-stream"}),
            await client.post(path, headers=BROWSER),
        ]
    assert "There is no such page" in read_texts(page, "[role=alert]")[0]
    assert select(page, "header .brand")
    for answer in answers:
        assert answer.status_code == 404
        assert "ends with /mcp" in answer.json()["error"]["message"]


async def test_a_wrong_method_is_a_page_that_names_the_right_one() -> None:
    async with make_answering_client() as client:
        form = await client.get("/session/end")
        page = await client.get("/mcp", headers=BROWSER)
        error = await client.get("/mcp", headers={"accept": "application/json"})
    assert "is for a form" in read_texts(parse_page(form), "[role=alert]")[0]
    assert "add its URL to an MCP client" in parse_page(page).text_content()
    assert "add its URL to an MCP client" in error.json()["error"]["message"]
    for response in (form, page, error):
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/passages/%E8%AA%AD", "/passages/%07x", "/search?q=%FF"])
async def test_a_redirect_encodes_what_a_header_cannot_contain(path: str) -> None:
    async with make_answering_client("読\x07\r\nx") as client:
        response = await client.get(path)
    assert response.status_code == 303
    location = response.headers["location"]
    assert location.isascii()
    assert location.isprintable()
    assert location.startswith("/")
