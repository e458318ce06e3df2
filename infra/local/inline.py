"""Runs tools in the gateway's own process: for a laptop, where nothing has to scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.build.discovery import tools
from shared.core.errors import CarrelError
from shared.runtime.invocation import invoke

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.catalog import Declaration
    from shared.runtime.context import App
    from shared.runtime.messages import CallAnswer, CallRequest
    from shared.runtime.tool import Tool


class InlineDispatcher:
    """Calls each tool's handler directly."""

    def __init__(self, app: App, known: Sequence[Tool[Any, Any]] = ()) -> None:
        """Run on this app the tools that are known; by default, all of Carrel's."""
        self._app = app
        self._tools = {tool.name: tool for tool in known or tools()}

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run the call here."""
        return await invoke(self._tools[tool.name], request, self._app)

    async def health(self) -> dict[str, str]:
        """Ask the database, the one part that calls depend on."""
        try:
            await self._app.ping()
        except CarrelError as error:
            return {"firestore": error.message}
        return {"firestore": "ok"}
