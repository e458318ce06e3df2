"""MCP resources: tools' answers under a URI. Which tool answers which is in the declarations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from functions.gateway.auth.visitor import visitor_of
from functions.gateway.mcp.resource_links import MIME_TYPE, linked_resources, match
from functions.gateway.mcp.results import compact, meta, result_of
from shared.core.base64url import from_base64url, to_base64url
from shared.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Context, Visitor
    from functions.gateway.calls.pipeline import Calls
    from functions.gateway.catalog import Catalog, Declaration
    from shared.runtime.messages import CallAnswer
    from shared.runtime.tool import Links

START_OVER: Final = "This cursor is not valid, or no longer is. Start over without a cursor."
MAX_URI_LENGTH: Final = 2_000
"""Characters of a URI that an error repeats."""
NOT_FOUND_WITH_HANDSHAKE: Final = -32002
"""What the revisions with a handshake call a missing resource; the later ones retired the code."""


class Resources:
    """Answers `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, catalog: Catalog, calls: Calls) -> None:
        """Offer what the catalogue says is a resource."""
        self._catalog = catalog
        self._calls = calls

    async def show(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List resources, a page at a time."""
        visitor = visitor_of(context)
        return await self._page(visitor, params.cursor if params else None)

    async def show_templates(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the kinds of resources."""
        templates = [
            types.ResourceTemplate(
                uri_template=template.uri,
                name=template.name,
                title=template.title,
                description=template.description,
                mime_type=MIME_TYPE,
            )
            for _, template in self._catalog.readable(visitor_of(context).caller)
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read one: call the tool that answers under its URI."""
        visitor = visitor_of(context)
        answer = await self._answer(params.uri, visitor)
        if answer is None or (answer.error and answer.error.code == InvalidInput.code):
            templates = self._catalog.readable(visitor.caller)
            uris = ", ".join(template.uri for _, template in templates)
            message = f"There is no resource {params.uri[:200]!r}. They look like this: {uris}"
            raise _not_found(context, params.uri, message)
        if answer.error and answer.error.code == NotFound.code:
            raise _not_found(context, params.uri, answer.error.message)
        text = compact(result_of(answer))
        content = types.TextResourceContents(uri=params.uri, mime_type=MIME_TYPE, text=text)
        return types.ReadResourceResult(contents=[content], _meta=meta(answer))

    async def _answer(self, uri: str, visitor: Visitor) -> CallAnswer | None:
        for tool, template in self._catalog.readable(visitor.caller):
            if arguments := match(template.uri, uri):
                return await self._calls.call(tool, arguments, visitor)
        return None

    async def _page(self, visitor: Visitor, cursor: str | None) -> types.ListResourcesResult:
        """One page: the first one, or the one at a cursor that an earlier page ended with.

        Raises:
            MCPError: The cursor is broken, or a tool failed.
        """
        listings = self._catalog.listed(visitor.caller)
        inner = None
        if cursor is not None:
            name, inner = from_cursor(cursor)
            names = [tool.name for tool, _ in listings]
            if name not in names:
                raise MCPError(types.INVALID_PARAMS, START_OVER)
            listings = listings[names.index(name) :]
        return await self._first_of(listings, inner, visitor)

    async def _first_of(
        self, listings: list[tuple[Declaration, Links]], cursor: str | None, visitor: Visitor
    ) -> types.ListResourcesResult:
        """The next page that holds something, of the first tool or of one behind it."""
        if not listings:
            return types.ListResourcesResult(resources=[])
        (tool, links), *others = listings
        result = await self._call_page(tool, links, cursor, visitor)
        resources, rest = linked_resources(result, links), result.get("next_cursor")
        if not resources and not rest:
            return await self._first_of(others, None, visitor)
        positions = [(tool.name, rest)] if rest else [(other.name, None) for other, _ in others]
        following = to_cursor(*positions[0]) if positions else None
        return types.ListResourcesResult(resources=resources, next_cursor=following)

    async def _call_page(
        self, tool: Declaration, links: Links, cursor: str | None, visitor: Visitor
    ) -> dict[str, Any]:
        arguments = {**links.walk, "cursor": cursor} if cursor else dict(links.walk)
        answer = await self._calls.call(tool, arguments, visitor)
        if cursor and answer.error and answer.error.code == InvalidInput.code:
            raise MCPError(types.INVALID_PARAMS, START_OVER)
        return result_of(answer)


def _not_found(context: Context, uri: str, message: str) -> MCPError:
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if modern else NOT_FOUND_WITH_HANDSHAKE
    return MCPError(code, message, data={"uri": uri[:MAX_URI_LENGTH]})


def to_cursor(tool: str, cursor: str | None) -> str:
    """Where the list goes on: at a page of this tool, by default its first."""
    return to_base64url(json.dumps([tool, cursor]).encode())


def from_cursor(cursor: str) -> tuple[str, str | None]:
    """The tool and the page of a cursor that `to_cursor` made.

    Raises:
        MCPError: This is no such cursor.
    """
    try:
        position = json.loads(from_base64url(cursor))
    except (ValueError, RecursionError):
        position = None
    match position:
        case [str(tool), (str() | None) as inner]:
            return tool, inner
        case _:
            raise MCPError(types.INVALID_PARAMS, START_OVER)
