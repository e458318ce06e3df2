"""The list of all resources: the pages of each listed tool, one tool after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.calls.pipeline import result_of
from functions.gateway.mcp.resource_links import linked
from shared.core.base64url import from_base64url, to_base64url
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Visitor
    from functions.gateway.calls.pipeline import Calls
    from functions.gateway.catalog import Catalog, Declaration
    from shared.runtime.tool import Links

START_OVER: Final = "This cursor is not valid, or no longer is. Start over without a cursor."


class ResourceList:
    """Walks the tools whose results are lists of resources."""

    def __init__(self, catalog: Catalog, calls: Calls) -> None:
        """Walk the tools that the catalogue says are listed."""
        self._catalog = catalog
        self._calls = calls

    async def page(self, visitor: Visitor, cursor: str | None) -> types.ListResourcesResult:
        """One page: the first one, or the one at a cursor that an earlier page ended with.

        Raises:
            MCPError: The cursor is broken, or a tool failed.
        """
        waiting = self._catalog.listed(visitor.caller)
        inner = None
        if cursor is not None:
            name, inner = from_cursor(cursor)
            names = [tool.name for tool, _ in waiting]
            if name not in names:
                raise MCPError(types.INVALID_PARAMS, START_OVER)
            waiting = waiting[names.index(name) :]
        return await self._first_of(waiting, inner, visitor)

    async def _first_of(
        self, waiting: list[tuple[Declaration, Links]], cursor: str | None, visitor: Visitor
    ) -> types.ListResourcesResult:
        """The next page that holds something, of the first tool or of one behind it."""
        if not waiting:
            return types.ListResourcesResult(resources=[])
        (tool, links), *behind = waiting
        result = await self._call(tool, links, cursor, visitor)
        found, rest = linked(result, links), result.get("next_cursor")
        if not found and not rest:
            return await self._first_of(behind, None, visitor)
        positions = [(tool.name, rest)] if rest else [(each.name, None) for each, _ in behind]
        following = to_cursor(*positions[0]) if positions else None
        return types.ListResourcesResult(resources=found, next_cursor=following)

    async def _call(
        self, tool: Declaration, links: Links, cursor: str | None, visitor: Visitor
    ) -> dict[str, Any]:
        arguments = {**links.walk, "cursor": cursor} if cursor else dict(links.walk)
        answer = await self._calls.call(tool, arguments, visitor)
        if cursor and answer.error and answer.error.code == InvalidInput.code:
            raise MCPError(types.INVALID_PARAMS, START_OVER)
        return result_of(answer)


def to_cursor(tool: str, cursor: str | None) -> str:
    """Where the list goes on: at a page of this tool, by default its first."""
    return to_base64url(json.dumps([tool, cursor]).encode())


def from_cursor(cursor: str) -> tuple[str, str | None]:
    """The tool and the page that `to_cursor` was told.

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
