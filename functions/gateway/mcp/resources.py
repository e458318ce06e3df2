"""MCP resources: the answers of tools whose declarations have a resource URI."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from functions.gateway.auth.visitor import require_visitor
from functions.gateway.mcp.apps import build_page_contents, parse_app_uri, supports_apps
from functions.gateway.mcp.results import (
    divide_fields,
    make_meta,
    quote,
    require_result,
    to_compact_json,
)
from shared.core.base64url import from_base64url, to_base64url
from shared.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.gateway.auth.visitor import RequestContext, Visitor
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog, Declaration
    from shared.core.caller import Caller
    from shared.runtime.tool import ResourceListing

MIME_TYPE: Final = "application/json"
"""Every resource of a tool has this media type."""
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
"""The only variable of a URI template: `carrel://chunk/{chunk_id}`. Ids consist of characters that
URIs do not reserve, so nothing needs percent-encoding."""
INVALID_CURSOR: Final = "This cursor is not valid, or no longer valid. Start over without a cursor."
MAX_URI_LENGTH: Final = 2_000
"""The data of an error contains at most this many characters of a URI."""
HANDSHAKE_NOT_FOUND: Final = -32002
"""The code for a missing resource in the protocol versions with a handshake.

Later versions use the code for invalid parameters."""


class Resources:
    """Answers `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, catalog: Catalog, pipeline: CallPipeline) -> None:
        self._catalog = catalog
        self._pipeline = pipeline

    async def list_resources(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List a page of resources."""
        visitor = require_visitor(context)
        return await self._load_page(visitor, params.cursor if params else None)

    async def list_templates(
        self, context: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the resource templates."""
        templates = [
            types.ResourceTemplate(
                uri_template=template.uri,
                name=template.name,
                title=template.title,
                description=template.description,
                mime_type=MIME_TYPE,
            )
            for _, template in self._catalog.list_resource_templates_for(
                require_visitor(context).caller
            )
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(
        self, context: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read the page of an app, or a resource by calling the tool that serves its URI."""
        visitor = require_visitor(context)
        app = parse_app_uri(params.uri)
        if app in self._catalog.list_apps_for(visitor.caller) and supports_apps(context):
            return types.ReadResourceResult(contents=[build_page_contents(app)])
        tool, arguments = self._match(params.uri, visitor.caller)
        answer = await self._pipeline.call(tool, arguments, visitor) if tool else None
        is_invalid = answer and answer.error and answer.error.code == InvalidInput.code
        if tool is None or answer is None or is_invalid:
            templates = self._catalog.list_resource_templates_for(visitor.caller)
            uris = ", ".join(template.uri for _, template in templates)
            message = f"There is no resource {quote(params.uri)}. Valid URIs look like: {uris}"
            raise _make_not_found_error(context, params.uri, message)
        if answer.error and answer.error.code == NotFound.code:
            raise _make_not_found_error(context, params.uri, answer.error.message)
        text = to_compact_json(divide_fields(require_result(answer), tool.for_apps)[0])
        content = types.TextResourceContents(uri=params.uri, mime_type=MIME_TYPE, text=text)
        return types.ReadResourceResult(contents=[content], _meta=make_meta(answer))

    def _match(self, uri: str, caller: Caller) -> tuple[Declaration | None, dict[str, str]]:
        """Find the tool whose answer is the resource, and its arguments."""
        for tool, template in self._catalog.list_resource_templates_for(caller):
            if arguments := match_template(template.uri, uri):
                return tool, arguments
        return None, {}

    async def _load_page(self, visitor: Visitor, cursor: str | None) -> types.ListResourcesResult:
        """Return the page at a cursor, or the first page without one.

        Raises:
            MCPError: The cursor is not valid, or a tool returned an error.
        """
        listings = self._catalog.list_resource_listings_for(visitor.caller)
        tool_cursor = None
        if cursor is not None:
            name, tool_cursor = from_cursor(cursor)
            names = [tool.name for tool, _ in listings]
            if name not in names:
                raise MCPError(types.INVALID_PARAMS, INVALID_CURSOR)
            listings = listings[names.index(name) :]
        return await self._find_next_page(listings, tool_cursor, visitor)

    async def _find_next_page(
        self,
        listings: list[tuple[Declaration, ResourceListing]],
        cursor: str | None,
        visitor: Visitor,
    ) -> types.ListResourcesResult:
        if not listings:
            return types.ListResourcesResult(resources=[])
        (tool, listing), *other_listings = listings
        result = await self._call_page(tool, listing, cursor, visitor)
        resources, next_cursor = _build_resources(result, listing), result.get("next_cursor")
        if not resources and not next_cursor:
            return await self._find_next_page(other_listings, None, visitor)
        position = None
        if next_cursor:
            position = to_cursor(tool.name, next_cursor)
        elif other_listings:
            position = to_cursor(other_listings[0][0].name, None)
        return types.ListResourcesResult(resources=resources, next_cursor=position)

    async def _call_page(
        self, tool: Declaration, listing: ResourceListing, cursor: str | None, visitor: Visitor
    ) -> dict[str, Any]:
        arguments = listing.paging_arguments | ({"cursor": cursor} if cursor else {})
        answer = await self._pipeline.call(tool, arguments, visitor)
        if cursor and answer.error and answer.error.code == InvalidInput.code:
            raise MCPError(types.INVALID_PARAMS, INVALID_CURSOR)
        return require_result(answer)


def get_variable_name(template: str) -> str:
    """Return the name of a template's variable, such as `chunk_id`."""
    [name] = _VARIABLE.findall(template)
    return str(name)  # `findall` returns Any


def expand_template(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template's variable."""
    return _VARIABLE.sub(lambda match: str(values[match[1]]), template)


def match_template(template: str, uri: str) -> dict[str, str] | None:
    """Return a template's variable with its value in a URI, or None if the URI does not match."""
    prefix, name, suffix = _VARIABLE.split(template)
    uri_match = re.fullmatch(f"{re.escape(prefix)}([^/?#]+){re.escape(suffix)}", uri)
    return {name: uri_match[1]} if uri_match else None


def _build_resources(result: dict[str, Any], listing: ResourceListing) -> list[types.Resource]:
    """Make the resources of a page.

    The gateway and a tool's function may run different releases, so fields may be missing.
    """
    id_field = get_variable_name(listing.uri_template)
    return [
        types.Resource(
            uri=expand_template(listing.uri_template, item),
            name=str(item.get(listing.name_field) or item[id_field]),
            mime_type=MIME_TYPE,
        )
        for item in result.get(listing.items_field) or []
        if item.get(id_field)
    ]


def _make_not_found_error(context: RequestContext, uri: str, message: str) -> MCPError:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if is_modern else HANDSHAKE_NOT_FOUND
    return MCPError(code, message, data={"uri": uri[:MAX_URI_LENGTH]})


def to_cursor(tool: str, cursor: str | None) -> str:
    """Make the cursor of `resources/list` from a tool and the tool's own cursor.

    The tool's cursor is None for its first page.
    """
    return to_base64url(json.dumps([tool, cursor]).encode())


def from_cursor(cursor: str) -> tuple[str, str | None]:
    """Return the tool and the tool's own cursor from a cursor that `to_cursor` made.

    Raises:
        MCPError: The cursor is not valid.
    """
    try:
        position = json.loads(from_base64url(cursor))
    except (ValueError, RecursionError):
        position = None
    match position:
        case [str(tool), (str() | None) as tool_cursor]:
            return tool, tool_cursor
        case _:
            raise MCPError(types.INVALID_PARAMS, INVALID_CURSOR)
