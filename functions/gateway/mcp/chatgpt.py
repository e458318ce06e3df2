"""The tools `search` and `fetch`, which ChatGPT's search and deep research expect of a server.

Names, arguments and results are OpenAI's (https://developers.openai.com/api/docs/mcp). The tools
are offered only at `/mcp?tools=chatgpt`, and delegate to `search_kb` and `get_chunk`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.auth.visitor import require_visitor
from functions.gateway.calls.normalization import normalize_arguments
from functions.gateway.mcp.results import to_result
from functions.gateway.mcp.tools import Tools, make_unknown_tool_error, reject_forbidden_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.gateway.auth.visitor import RequestContext
    from shared.runtime.messages import WireError

GROUP: Final = "chatgpt"
"""The value of the query parameter `tools`."""
_URL_FIELDS: Final = ("address", "highlight_url", "source_url", "readwise_url")
"""The fields of a passage that may contain the URL to cite, the most specific first."""
_METADATA_FIELDS: Final = (
    "author",
    "date",
    "chapter",
    "page",
    "location",
    "chunk_info",
    "source_id",
)
_STRING: Final = {"type": "string"}
"""The schema of a text, which most fields of the two tools are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adapter:
    """Exposes one of Carrel's tools under the name and schema that ChatGPT expects.

    Attributes:
        target_argument: The argument of Carrel's tool that the only argument becomes.
        fixed_arguments: The other arguments of Carrel's tool.
        convert: Converts a result of Carrel's tool to the form that ChatGPT expects.
    """

    target: str
    target_argument: str
    fixed_arguments: dict[str, Any]
    convert: Callable[[dict[str, Any]], dict[str, Any]]
    tool: types.Tool


class ChatGptTools(Tools):
    """Answers `tools/list` and `tools/call` with `search` and `fetch`."""

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return [adapter.tool.name for adapter in _ADAPTERS]

    async def list_tools(
        self, context: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List those of the two tools that the caller may call."""
        caller = require_visitor(context).caller
        offered = [adapter for adapter in _ADAPTERS if self._catalog.get(adapter.target, caller)]
        return types.ListToolsResult(tools=[adapter.tool for adapter in offered])

    async def call_tool(
        self, context: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call the tool behind `search` or `fetch`."""
        visitor = require_visitor(context)
        adapter = next((adapter for adapter in _ADAPTERS if adapter.tool.name == params.name), None)
        if adapter is None:
            raise make_unknown_tool_error(params.name, self.names)
        target = self._catalog.get(adapter.target, visitor.caller)
        if target is None:
            if forbidden := self._catalog.find_forbidden(adapter.target, visitor.caller):
                renamed = forbidden.model_copy(update={"name": params.name})
                reject_forbidden_call(renamed, visitor)
            message = f"This server does not offer {params.name}."
            raise MCPError(types.INVALID_PARAMS, message)
        schema = adapter.tool.input_schema
        arguments = normalize_arguments(params.arguments or {}, schema, is_read=True)
        [argument] = schema["required"]
        # `search_kb` would take an empty query as none, and list the newest passages.
        if set(arguments) != {argument} or arguments[argument] == "":
            message = f"{params.name} takes one argument: {argument}."
            raise MCPError(types.INVALID_PARAMS, message)
        arguments = {adapter.target_argument: arguments[argument]}
        answer = await self._pipeline.call(target, arguments | adapter.fixed_arguments, visitor)
        if answer.result is not None:
            result = adapter.convert(answer.result)
            answer = answer.model_copy(update={"result": result, "text": None})
        if answer.error is not None:
            answer = answer.model_copy(update={"error": _rename(answer.error)})
        return to_result(answer, target)


def _rename(error: WireError) -> WireError:
    """Replace the names of Carrel's tools and arguments in an error with those of ChatGPT's."""
    names: dict[str, str] = {}
    for adapter in _ADAPTERS:
        names[adapter.target] = adapter.tool.name
        [names[adapter.target_argument]] = adapter.tool.input_schema["required"]
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    details = {names.get(name, name): detail for name, detail in error.details.items()}
    message = pattern.sub(lambda match: names[match[0]], error.message)
    return error.model_copy(update={"message": message, "details": details})


def _convert_hits(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "results": [
            {"id": hit["chunk_id"], "title": _make_title(hit), "url": _choose_url(hit)}
            for hit in result["results"]
        ]
    }


def _convert_chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: str(chunk[name]) for name in _METADATA_FIELDS if chunk.get(name) is not None}
    if chunk["tags"]:
        metadata["tags"] = ", ".join(chunk["tags"])
    return {
        "id": chunk["chunk_id"],
        "title": _make_title(chunk),
        "text": chunk["content"],
        "url": _choose_url(chunk),
        "metadata": metadata,
    }


def _make_title(passage: dict[str, Any]) -> str:
    author = passage.get("author")
    return f"{passage['title']} by {author}" if author else str(passage["title"])


def _choose_url(passage: dict[str, Any]) -> str:
    """Return the URL to cite: the passage's, else its source's, else that of Carrel's resource."""
    urls = (passage.get(name) for name in _URL_FIELDS)
    return next(filter(None, urls), f"carrel://chunk/{passage['chunk_id']}")


def _make_tool(
    name: str, title: str, description: str, argument: str, output: dict[str, Any]
) -> types.Tool:
    return types.Tool(
        name=name,
        title=title,
        description=description,
        input_schema={
            "type": "object",
            "properties": {argument: _STRING},
            "required": [argument],
        },
        output_schema={"type": "object", "properties": output, "required": list(output)},
        annotations=types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


_HIT_PROPERTIES: Final = {"id": _STRING, "title": _STRING, "url": _STRING}
_HIT: Final = {"type": "object", "properties": _HIT_PROPERTIES}
_ADAPTERS: Final = (
    _Adapter(
        target="search_kb",
        target_argument="query",
        fixed_arguments={},
        convert=_convert_hits,
        tool=_make_tool(
            "search",
            "Search the knowledge base",
            "Search what the owner has read, highlighted and noted, by meaning and by words. Read"
            " the hits with fetch.",
            "query",
            {"results": {"type": "array", "items": _HIT}},
        ),
    ),
    _Adapter(
        target="get_chunk",
        target_argument="chunk_id",
        fixed_arguments={"include_related": False},
        convert=_convert_chunk,
        tool=_make_tool(
            "fetch",
            "Read a passage",
            "Read a passage that search found, in full, with citation details.",
            "id",
            {**_HIT_PROPERTIES, "text": _STRING, "metadata": {"type": "object"}},
        ),
    ),
)
