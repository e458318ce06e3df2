"""MCP resources: tools' answers under a URI. Which tool answers which is in the declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from functions.gateway.auth.visitor import visitor_of
from functions.gateway.calls.pipeline import compact, meta, result_of
from functions.gateway.mcp.resource_links import MIME_TYPE
from functions.gateway.mcp.resource_list import ResourceList
from functions.gateway.mcp.uris import match
from shared.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Context, Visitor
    from functions.gateway.calls.pipeline import Calls
    from functions.gateway.catalog import Catalog
    from shared.runtime.messages import CallAnswer

LONGEST_URI: Final = 2_000
"""Characters of a URI that are told back."""
NOT_FOUND_WITH_HANDSHAKE: Final = -32002
"""What the revisions with a handshake call a missing resource; the later ones retired the code."""


class Resources:
    """Answers `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, catalog: Catalog, calls: Calls) -> None:
        """Offer what the catalogue says is a resource."""
        self._catalog = catalog
        self._calls = calls
        self._list = ResourceList(catalog, calls)

    async def show(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List resources, a page at a time."""
        visitor = visitor_of(context)
        return await self._list.page(visitor, params.cursor if params else None)

    async def show_templates(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the kinds of resources."""
        templates = [
            types.ResourceTemplate(
                uri_template=each.uri,
                name=each.name,
                title=each.title,
                description=each.description,
                mime_type=MIME_TYPE,
            )
            for _, each in self._catalog.readable(visitor_of(context).caller)
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read one: call the tool that answers under its URI."""
        visitor = visitor_of(context)
        answer = await self._answer(params.uri, visitor)
        if answer is None or (answer.error and answer.error.code == InvalidInput.code):
            known = ", ".join(each.uri for _, each in self._catalog.readable(visitor.caller))
            message = f"There is no resource {params.uri[:200]!r}. They look like this: {known}"
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


def _not_found(context: Context, uri: str, message: str) -> MCPError:
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if modern else NOT_FOUND_WITH_HANDSHAKE
    return MCPError(code, message, data={"uri": uri[:LONGEST_URI]})
