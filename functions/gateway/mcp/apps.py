"""MCP Apps: pages that a client shows beside the answer of a tool (SEP-1865, of 2026-01-26).

The extension concerns only clients that declare it. From 2026-07-28 on, each request says what its
client can do. Before, `initialize` alone says so, and this server stores nothing; its answer gives
such a client a session id that says it, which the client repeats with every request.
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
"""The extension has this name in capabilities."""
MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The media type of an app's page."""
_SETTINGS: Final[dict[str, Any]] = {"mimeTypes": [MIME_TYPE]}
_CAPABILITIES: Final = {"extensions": {EXTENSION: _SETTINGS}}
_SESSION_PREFIX: Final = "apps."
_URI_PREFIX: Final = "ui://carrel/"
_PAGE_META: Final = {"ui": {"csp": {}, "prefersBorder": True}}
"""A page needs no other host, and has no frame of its own."""


def shows_apps(context: RequestContext) -> bool:
    """Return whether the client shows apps."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and _declares_apps(capabilities.extensions)


def _declares_apps(extensions: object) -> bool:
    settings = extensions.get(EXTENSION) if isinstance(extensions, dict) else None
    media_types = settings.get("mimeTypes") if isinstance(settings, dict) else None
    return isinstance(media_types, list) and MIME_TYPE in media_types


async def advertise_apps(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Declare the extension, as middleware of the server, to clients that declare it."""
    result = await call_next(ctx)
    match ctx.method, ctx.params:
        case "initialize", {"capabilities": {"extensions": extensions}}:
            is_declared = _declares_apps(extensions)
        case "server/discover", _:
            is_declared = shows_apps(ctx)
        case _:
            is_declared = False
    if is_declared and isinstance(result, dict):
        result["capabilities"]["extensions"] = {EXTENSION: _SETTINGS}
    return result


def make_session_headers(initialize_result: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of the answer to `initialize`: a session id if the client shows apps."""
    if not _declares_apps(initialize_result["capabilities"].get("extensions")):
        return {}
    # Proxies may tell clients apart by the id, so each has another.
    return {MCP_SESSION_ID_HEADER: f"{_SESSION_PREFIX}{secrets.token_hex(16)}"}


def recall_capabilities(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what the client of a session can do, as far as it matters here."""
    session_id = headers.get(MCP_SESSION_ID_HEADER, "")
    return _CAPABILITIES if session_id.startswith(_SESSION_PREFIX) else None


def tool_meta(tool: Declaration) -> dict[str, Any] | None:
    """Return the `_meta` that names the app of a tool, or that only its app may call the tool."""
    if tool.app is None:
        return None
    if tool.internal:
        return {"ui": {"visibility": ["app"]}}
    return {"ui": {"resourceUri": f"{_URI_PREFIX}{tool.app}"}}


def parse_app_uri(uri: str) -> str | None:
    """Return the name of the app whose page has this URI, or None for another resource."""
    return uri.removeprefix(_URI_PREFIX) if uri.startswith(_URI_PREFIX) else None


def app_contents(app: str) -> types.TextResourceContents:
    """Return the page of an app as the contents of its resource."""
    from functions.gateway.apps.pages import app_page

    uri = f"{_URI_PREFIX}{app}"
    return types.TextResourceContents(
        uri=uri, mime_type=MIME_TYPE, text=app_page(app), _meta=_PAGE_META
    )
