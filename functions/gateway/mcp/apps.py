"""MCP Apps: pages that a client shows next to a tool's answer (SEP-1865, of 2026-01-26).

The extension concerns only clients that declare it. Since protocol version 2026-07-28, every
request carries the client's capabilities. In earlier versions, only `initialize` does. Since this
server is stateless, it marks the session id that it returns to such clients, and they repeat it
with every request.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import CallNext, HandlerResult

    from functions.gateway.auth.visitor import RequestContext
    from functions.gateway.catalog import Declaration

EXTENSION: Final = "io.modelcontextprotocol/ui"
"""The name of the extension in capabilities."""
MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The media type of an app's page."""
_SESSION_PREFIX: Final = "apps."
"""The session id of a client that supports apps begins like this."""
_URI_PREFIX: Final = "ui://carrel/"


def supports_apps(context: RequestContext) -> bool:
    """Return whether the client declares that it shows apps."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and _declares_apps(capabilities.extensions)


def _declares_apps(extensions: object) -> bool:
    settings = extensions.get(EXTENSION) if isinstance(extensions, dict) else None
    media_types = settings.get("mimeTypes") if isinstance(settings, dict) else None
    return isinstance(media_types, list) and MIME_TYPE in media_types


def _build_extensions() -> dict[str, Any]:
    """Build the declaration. Each call returns a new one, because recipients may change theirs."""
    return {EXTENSION: {"mimeTypes": [MIME_TYPE]}}


async def advertise_apps(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Add the extension to the server's capabilities, for clients that declare it.

    This is middleware of the server; the SDK calls it with the name `ctx`.
    """
    result = await call_next(ctx)
    match ctx.method, ctx.params:
        case "initialize", {"capabilities": {"extensions": extensions}}:
            is_declared = _declares_apps(extensions)
        case "server/discover", _:
            is_declared = supports_apps(ctx)
        case _:
            is_declared = False
    if is_declared and isinstance(result, dict):
        capabilities = result["capabilities"]
        capabilities["extensions"] = (capabilities.get("extensions") or {}) | _build_extensions()
    return result


def make_session_headers(initialize_result: Mapping[str, Any]) -> dict[str, str]:
    """Return headers for a result of `initialize`: a marked session id if the result has apps."""
    if not _declares_apps(initialize_result["capabilities"].get("extensions")):
        return {}
    # Proxies may route by the session id, so each client gets its own.
    return {MCP_SESSION_ID_HEADER: f"{_SESSION_PREFIX}{secrets.token_hex(16)}"}


def recall_capabilities(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the capabilities that a marked session id implies, or None without such an id."""
    session_id = headers.get(MCP_SESSION_ID_HEADER, "")
    return {"extensions": _build_extensions()} if session_id.startswith(_SESSION_PREFIX) else None


def build_tool_meta(tool: Declaration) -> dict[str, Any] | None:
    """Build the `_meta` of a tool, or return None if it has no app.

    It names the page to show next to the tool's answers. For an internal tool, it says instead that
    only the app may call the tool.
    """
    if tool.app is None:
        return None
    if tool.internal:
        return {"ui": {"visibility": ["app"]}}
    return {"ui": {"resourceUri": f"{_URI_PREFIX}{tool.app}"}}


def parse_app_uri(uri: str) -> str | None:
    """Return the name in the URI of an app's page, or None if it is another resource's URI.

    The name need not be that of an app.
    """
    return uri.removeprefix(_URI_PREFIX) if uri.startswith(_URI_PREFIX) else None


def build_page_contents(app: str) -> types.TextResourceContents:
    """Build the contents of the resource that is the app's page."""
    # Only clients that show apps need the pages and the folder that they are read from.
    from functions.gateway.apps.pages import build_app_page

    # The page loads nothing from any host. It has no border, so the client should draw one.
    meta = {"ui": {"csp": {}, "prefersBorder": True}}
    return types.TextResourceContents(
        uri=f"{_URI_PREFIX}{app}", mime_type=MIME_TYPE, text=build_app_page(app), _meta=meta
    )
