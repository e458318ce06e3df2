"""Runs the console in the test's process with a fake dispatcher, and reads parts of its pages."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from lxml import html
from pydantic import SecretStr
from starlette.applications import Starlette

from functions.gateway.access import Access
from functions.gateway.app import make_mcp_app
from functions.gateway.auth.public_url import get_issuer_url
from functions.gateway.calls.dispatch import Dispatcher
from functions.gateway.catalog import Catalog
from functions.gateway.console.add import Uploads
from functions.gateway.console.export import StreamExport
from functions.gateway.console.local_services import LocalServices
from functions.gateway.console.routes import LazyConsole
from functions.gateway.console.visits import FindFile
from functions.gateway.mcp.selection import SelectedServers
from shared.accounts.access_key import new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.support.fake_catalog import FakeDispatcher
from tests.support.tool_calls import find_tool

URL: Final = "http://localhost:8080"
"""The URL of the console."""
CATALOG: Final = Catalog.load()
"""The real declarations of all tools."""
WORDS_FOR_MODELS: Final = re.compile(
    r"[a-z]+_[a-z]+|`|\bcalls?\b|\btools?\b|cursor|chunk", re.IGNORECASE
)
"""These words are for a model that calls tools, not for a person who reads a page."""
PAGES: Final = [
    *("/", "/?q=x&tag=x", "/sources", "/sources?tag=x&author=x", "/sources/s?passage=c"),
    *("/map", "/map?q=x&cluster=c", "/clusters/c", "/forgotten", "/add"),
]
"""The paths of pages that show the results of tools."""


_ADDRESS_ATTRIBUTES: Final = (
    *("href", "src", "action", "formaction", "srcset", "poster", "data", "ping"),
)
_ALLOWED_ELEMENTS: Final = set(
    """html head meta title link script body header nav main footer section aside article form
    label input button kbd textarea details summary h1 h2 h3 h4 h5 h6 p a span em strong s ul ol li
    div table thead tbody tr th td blockquote hr br pre code data time mark canvas noscript
    small""".split()  # noqa: SIM905 - as a list, 55 lines
)


def assert_harmless_elements(page: html.HtmlElement) -> None:
    """Check that a page or a part of it has only the console's elements and addresses."""
    for element in page.iter():
        assert element.tag in _ALLOWED_ELEMENTS, element.tag
        assert [name for name in element.attrib if name.startswith("on") or name == "style"] == []
        for name in _ADDRESS_ATTRIBUTES:
            if name in element.attrib:
                _assert_harmless_address(element, element.attrib[name])


def _assert_harmless_address(element: html.HtmlElement, address: str) -> None:
    """Check that an address is one of this site, or of the web or of mail in a plain link."""
    url = urlsplit(address)
    if url.scheme or url.netloc:
        assert element.tag == "a"
        assert url.scheme in {"http", "https", "mailto"}
        assert element.attrib["rel"] == "noopener noreferrer"
    else:
        assert address.startswith(("/", "#", "?"))


def make_access() -> Access:
    """Make the services of a gateway without sign-in, as on a laptop."""
    return Access(Settings(local_user="local", access_secrets=[SecretStr("s" * 32)]))


def make_console_client(
    dispatcher: Dispatcher,
    uploads: Uploads | None = None,
    find_file: FindFile | None = None,
    stream_export: StreamExport | None = None,
) -> httpx2.AsyncClient:
    """Make a client of a console without sign-in, as on a laptop, with or without its files."""
    local = LocalServices(uploads, find_file, stream_export)
    app = make_app(make_access(), dispatcher, local)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=URL)


def make_app(
    access: Access,
    dispatcher: Dispatcher,
    local: LocalServices | None = None,
) -> Starlette:
    """Make a gateway with its console."""
    pipeline = access.make_pipeline(dispatcher)
    find_server = SelectedServers(CATALOG, pipeline).find
    console = LazyConsole(access, CATALOG, pipeline, local)
    return make_mcp_app(access, dispatcher, find_server, console)


def make_answering_client(text: str = "text") -> httpx2.AsyncClient:
    """Make a client of a console whose tools answer with valid results of this text."""
    return make_console_client(answer_with(text))


def answer_with(text: str = "text", **changes: Any) -> FakeDispatcher:
    """Answer every call with a valid result in which every text is this one, and these fields."""
    return FakeDispatcher(lambda tool, _: make_result(tool, text) | changes)


def parse_page(response: httpx2.Response) -> html.HtmlElement:
    """Assert that a response is a page, and parse it."""
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return html.fromstring(response.content)


def read_text(element: html.HtmlElement) -> str:
    """Return the text of an element with single spaces."""
    return " ".join(element.text_content().split())


def select(element: html.HtmlElement, selector: str) -> list[html.HtmlElement]:
    """Return the elements that match a CSS selector, in the order of the page.

    It supports descendants, and `tag`, `.class`, `#id`, `[name]` and `[name=value]`.
    """
    path = "".join(map(_to_xpath, selector.split()))
    return list(element.xpath(f".{path}"))


def read_texts(element: html.HtmlElement, selector: str) -> list[str]:
    """Return the texts of the elements that a selector finds."""
    return [read_text(match) for match in select(element, selector)]


def _to_xpath(step: str) -> str:
    tag, *conditions = re.findall(r"^[a-z0-9]*|[.#][\w-]+|\[[^\]]+\]", step)
    return f"//{tag or '*'}" + "".join(map(_to_condition, conditions))


def _to_condition(text: str) -> str:
    name, _, value = text.strip("[].#").partition("=")
    match text[0]:
        case ".":
            return f"[contains(concat(' ', @class, ' '), ' {name} ')]"
        case "#":
            return f"[@id='{name}']"
        case _:
            return f"[@{name}='{value}']" if value else f"[@{name}]"


def make_result(tool: str, text: str) -> dict[str, Any]:
    """Make a result of a tool in which every field is present, and every string is `text`."""
    schema = find_tool(tool).output.model_json_schema(mode="serialization")
    result: dict[str, Any] = _fill(schema, schema, text)
    return result


def _fill(  # noqa: PLR0911 - a case each
    schema: Mapping[str, Any], root: Mapping[str, Any], text: str
) -> Any:
    """Return a value of this schema, whose references lead into `root`."""
    if "$ref" in schema:
        return _fill(root["$defs"][schema["$ref"].rpartition("/")[2]], root, text)
    if "anyOf" in schema:
        return _fill(schema["anyOf"][0], root, text)
    if "enum" in schema or "const" in schema:
        return schema.get("const") or schema["enum"][0]
    match schema.get("type"):
        case "object":
            values = schema.get("properties", {})
            return {name: _fill(value, root, text) for name, value in values.items()}
        case "array":
            return [_fill(schema["items"], root, text)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return text


@asynccontextmanager
async def open_signed_in_console(
    access: Access, dispatcher: Dispatcher, user: str = "ada"
) -> AsyncIterator[httpx2.AsyncClient]:
    """Open a browser that signed in to the console of a gateway with a key of a user."""
    app = make_app(access, dispatcher)
    key, record = new_key(access.keyring, user, "key", FULL_ACCESS, created_at=access.clock())
    await AccessStore(access.connection).keys.add(record)
    url = get_issuer_url(access.settings)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=url) as client:
        consent = await client.get("/map", follow_redirects=True)
        form = dict(html.fromstring(consent.content).forms[0].form_values())
        decision = {"key": key, "decision": "allow"}
        response = await client.post("/consent", data=form | decision)
        callback = await client.get(response.headers["location"])
        assert callback.headers["location"] == "/map"
        yield client
