"""A page that shows MCP Apps as chat clients do, with the official client and the official bridge.

The bridge is the host's part of the npm package `@modelcontextprotocol/ext-apps`. The package also
has the JSON schemas of its messages, by which every message of both sides is checked.
"""

import json
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import jsonschema  # type: ignore[import-untyped]  # mcp brings it, without types
import pytest
from playwright.async_api import FrameLocator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tests.support.browser import Browser
from tests.support.npm import NotInstalled, install_packages
from tests.support.web_sites import serve_app

PACKAGE: Final = Path(__file__).with_name("ext_apps")
"""The folder with the page, and the lock file of its npm packages."""
_SCHEMAS: Final = Path("@modelcontextprotocol/ext-apps/dist/src/generated/schema.json")
"""The file with the schemas of messages, in `node_modules`."""
_RESULTS: Final = {
    "ui/initialize": "McpUiInitializeResult",
    "ui/open-link": "McpUiOpenLinkResult",
    "ui/message": "McpUiMessageResult",
    "ui/resource-teardown": "McpUiResourceTeardownResult",
}
"""The name of the schema of each method's result."""


@asynccontextmanager
async def serve_host() -> AsyncIterator[str]:
    """Serve the page, and yield its origin, which a gateway must allow.

    The test is skipped if the npm packages cannot be installed.
    """
    try:
        modules = install_packages(PACKAGE) / "node_modules"
    except NotInstalled as error:
        pytest.skip(str(error))

    async def answer(_request: Request) -> Response:
        return FileResponse(PACKAGE / "host.html")

    # A browser runs a module only with the media type of scripts, and Python does not know .mjs.
    mimetypes.add_type("text/javascript", ".mjs")
    files = Mount("/npm", StaticFiles(directory=modules, follow_symlink=True))
    async with serve_app(lambda _: Starlette(routes=[files, Route("/", answer)])) as origin:
        yield origin


@dataclass
class AppHost:
    """The host page in a browser window.

    Attributes:
        browser: The window.
    """

    browser: Browser

    @classmethod
    async def open(cls, browser: Browser, origin: str) -> Self:
        """Open the page."""
        await browser.open(f"{origin}/")
        await browser.page.locator("html[data-ready]").wait_for(state="attached")
        return cls(browser)

    async def connect(self, endpoint: str, key: str = "", mode: str = "auto") -> dict[str, Any]:
        """Connect the client to a gateway; return the capabilities of the server."""
        capabilities: dict[str, Any] = await self.call_function("connect", endpoint, key, mode)
        return capabilities

    async def show_app(
        self, tool: str, arguments: dict[str, Any] | None, **options: Any
    ) -> dict[str, Any]:
        """Call a tool and show its app; return the resource of the app.

        Args:
            tool: The tool.
            arguments: Its arguments; None if the app gets only a result.
            options: The keyword arguments of the page's function `show`: `hostContext`; `result`,
                in place of the tool's own; and `cancelled`, why the call was cancelled.
        """
        resource: dict[str, Any] = await self.call_function("show", tool, arguments, options)
        return resource

    async def call_function(self, function: str, *arguments: Any) -> Any:
        """Call a function of the page."""
        script = f"(values) => window.{function}(...values)"
        return await self.browser.page.evaluate(script, list(arguments))

    async def read_variable(self, name: str) -> Any:
        """Return a variable of the page: `messages`, `opened` (links) or `sent` (to the chat)."""
        return await self.browser.page.evaluate(f"window.{name}")

    async def refuse_requests(self, message: str | None) -> None:
        """Refuse all further requests of the app with this message, or none if it is None."""
        await self.browser.page.evaluate("(message) => { window.refusal = message }", message)

    @property
    def app(self) -> FrameLocator:
        """The page of the app."""
        return self.browser.page.frame_locator("iframe")

    async def assert_messages_match_the_schemas(self) -> list[str]:
        """Check all messages so far, and return the methods of the requests and notifications."""
        schemas = _read_schemas()
        definitions = _find_method_schemas(schemas)
        methods = []
        request_methods = {}
        for record in await self.read_variable("messages"):
            message = record["message"]
            assert message["jsonrpc"] == "2.0"
            if method := message.get("method"):
                methods.append(method)
                request_methods[record["from"], message.get("id")] = method
                definition = definitions.get(method)
                assert definition or not method.startswith("ui/"), method
                content = {name: message[name] for name in ("method", "params")}
            else:
                other = {"app": "host", "host": "app"}[record["from"]]
                definition = _RESULTS.get(request_methods[other, message["id"]])
                content = message.get("result")
            if definition and content is not None:
                jsonschema.validate(content, schemas[definition])
        return methods


def _read_schemas() -> dict[str, Any]:
    """Return the package's schemas by name."""
    path = install_packages(PACKAGE) / "node_modules" / _SCHEMAS
    schemas: dict[str, Any] = json.loads(path.read_text("utf-8"))["$defs"]
    return schemas


def _find_method_schemas(schemas: dict[str, Any]) -> dict[str, str]:
    """Return the name of the schema of each request and notification, by method."""
    return {
        schema["properties"]["method"]["const"]: name
        for name, schema in schemas.items()
        if "const" in schema.get("properties", {}).get("method", {})
    }
