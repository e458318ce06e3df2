"""MCP completion: names that go on as somebody began to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.auth.visitor import visitor_of
from functions.gateway.mcp.resource_links import variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.auth.visitor import Context, Visitor
    from functions.gateway.calls.pipeline import Calls
    from functions.gateway.catalog import Catalog
    from functions.gateway.mcp.prompts import Prompts

MOST: Final = 100
"""Values that the protocol allows in one answer."""
_ID: Final = "_id"


class Completions:
    """Answers `completion/complete`."""

    def __init__(self, catalog: Catalog, calls: Calls, prompts: Prompts) -> None:
        """Complete arguments of these prompts, and of the catalogue's resource templates."""
        self._catalog = catalog
        self._calls = calls
        self._prompts = prompts

    async def complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete a value: of a prompt's argument to names, of a template's variable to ids."""
        visitor, argument = visitor_of(context), params.argument
        if isinstance(params.ref, types.PromptReference):
            return await self._name(params.ref.name, argument, visitor)
        return await self._id(params.ref.uri, argument, visitor)

    async def _name(
        self, prompt: str, argument: types.CompletionArgument, visitor: Visitor
    ) -> types.CompleteResult:
        wanted = self._prompts.named(prompt).argument(argument.name)
        if wanted and wanted.choices:
            return _result([each for each in wanted.choices if each.startswith(argument.value)])
        if wanted and wanted.kind:
            return await self._ask(wanted.kind, "name", argument.value, visitor)
        return _result([])

    async def _id(
        self, uri: str, argument: types.CompletionArgument, visitor: Visitor
    ) -> types.CompleteResult:
        known = [template.uri for _, template in self._catalog.readable(visitor.caller)]
        if uri not in known:
            message = f"There is no resource template {uri[:200]!r}. There are: {', '.join(known)}"
            raise MCPError(types.INVALID_PARAMS, message)
        if argument.name != variable(uri) or not argument.name.endswith(_ID):
            return _result([])
        return await self._ask(argument.name.removesuffix(_ID), "id", argument.value, visitor)

    async def _ask(
        self, kind: str, field: str, prefix: str, visitor: Visitor
    ) -> types.CompleteResult:
        """Ask the tool that completes this kind. While it fails, nothing is completed."""
        tool = self._catalog.completing(kind, visitor.caller)
        if tool is None:
            return _result([])
        arguments = {"kind": kind, "prefix": prefix}
        answer = await self._calls.call(tool, arguments, visitor)
        if answer.result is None:
            return _result([])
        found = answer.result
        values = list(dict.fromkeys(each[field] for each in found["names"] if each[field]))
        return _result(values, found["total"] - (len(found["names"]) - len(values)))


def _result(values: Sequence[str], total: int = 0) -> types.CompleteResult:
    shown = list(values[:MOST])
    total = max(total, len(values))
    completion = types.Completion(values=shown, total=total, has_more=total > len(shown))
    return types.CompleteResult(completion=completion)
