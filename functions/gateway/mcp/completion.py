"""MCP completion: names and ids that begin with the typed text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.auth.visitor import require_visitor
from functions.gateway.mcp.resources import get_variable_name
from functions.gateway.mcp.results import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.auth.visitor import RequestContext, Visitor
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog
    from functions.gateway.mcp.prompts import Prompts

MAX_VALUES: Final = 100
"""The protocol allows at most this many values in a response."""
_ID: Final = "_id"
"""The name of a variable that is the id of something, such as `chunk_id`, ends with this."""


class Completions:
    """Answers `completion/complete`."""

    def __init__(self, catalog: Catalog, pipeline: CallPipeline, prompts: Prompts) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._prompts = prompts

    async def complete(
        self, context: RequestContext, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete a prompt's argument to names, or a template's variable to ids."""
        visitor, argument = require_visitor(context), params.argument
        if isinstance(params.ref, types.PromptReference):
            return await self._complete_name(params.ref.name, argument, visitor)
        return await self._complete_id(params.ref.uri, argument, visitor)

    async def _complete_name(
        self, prompt: str, argument: types.CompletionArgument, visitor: Visitor
    ) -> types.CompleteResult:
        declared_argument = self._prompts.find(prompt).find_argument(argument.name)
        if declared_argument and declared_argument.choices:
            choices = declared_argument.choices
            return _build_result(
                [choice for choice in choices if choice.startswith(argument.value)]
            )
        if declared_argument and declared_argument.kind:
            return await self._look_up(declared_argument.kind, "name", argument.value, visitor)
        return _build_result([])

    async def _complete_id(
        self, uri: str, argument: types.CompletionArgument, visitor: Visitor
    ) -> types.CompleteResult:
        templates = [
            template.uri
            for _, template in self._catalog.list_resource_templates_for(visitor.caller)
        ]
        if uri not in templates:
            names = ", ".join(templates)
            message = f"There is no resource template {quote(uri)}. The templates are: {names}"
            raise MCPError(types.INVALID_PARAMS, message)
        if argument.name != get_variable_name(uri) or not argument.name.endswith(_ID):
            return _build_result([])
        return await self._look_up(argument.name.removesuffix(_ID), "id", argument.value, visitor)

    async def _look_up(
        self, kind: str, field: str, prefix: str, visitor: Visitor
    ) -> types.CompleteResult:
        """Call the tool that completes names of a kind. Return no completions if it fails.

        Args:
            kind: The kind of the names, such as `author`.
            field: The field of each name to return: `name`, or `id`.
        """
        tool = self._catalog.find_completer(kind, visitor.caller)
        if tool is None:
            return _build_result([])
        arguments = {"kind": kind, "prefix": prefix}
        answer = await self._pipeline.call(tool, arguments, visitor)
        if answer.result is None:
            return _build_result([])
        names, total = answer.result["names"], answer.result["total"]
        values = list(dict.fromkeys(name[field] for name in names if name[field]))
        return _build_result(values, total - (len(names) - len(values)))


def _build_result(values: Sequence[str], total: int = 0) -> types.CompleteResult:
    page = list(values[:MAX_VALUES])
    total = max(total, len(values))
    completion = types.Completion(values=page, total=total, has_more=total > len(page))
    return types.CompleteResult(completion=completion)
