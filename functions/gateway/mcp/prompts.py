"""MCP prompts: what is listed, and how arguments become a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.exceptions import MCPError

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.auth.visitor import Context
    from functions.gateway.mcp.prompt import Prompt


class Prompts:
    """Answers `prompts/list` and `prompts/get`."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        """Offer these prompts."""
        self._by_name = {each.name: each for each in prompts}

    async def show(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List all prompts."""
        return types.ListPromptsResult(prompts=[each.to_mcp() for each in self._by_name.values()])

    async def get(
        self, _context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Write one out."""
        prompt = self.named(params.name)
        try:
            text = prompt.render(params.arguments or {})
        except InvalidInput as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(
            description=prompt.description,
            messages=[types.PromptMessage(role="user", content=content)],
        )

    def named(self, name: str) -> Prompt:
        """The prompt of this name.

        Raises:
            MCPError: There is none.
        """
        if found := self._by_name.get(name):
            return found
        message = f"There is no prompt {name[:80]!r}. The prompts are: {', '.join(self._by_name)}."
        raise MCPError(types.INVALID_PARAMS, message)
