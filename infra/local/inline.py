"""Runs tools in the gateway's process, for local runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from infra.build.discovery import find_tool
from infra.local.warm_up import load_multilingual_model
from shared.core.errors import CarrelError
from shared.runtime.invocation import invoke

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.catalog import Declaration
    from shared.runtime.context import App
    from shared.runtime.messages import CallAnswer, CallRequest
    from shared.runtime.tool import Tool


class InlineDispatcher:
    """Calls each tool's handler directly. A tool is imported when it is first called."""

    def __init__(self, app: App, available: Sequence[Tool[Any, Any]] = ()) -> None:
        """Prepare to run tools.

        Args:
            app: The resources of this process.
            available: Further tools, which take precedence over Carrel's.
        """
        self._app = app
        self._tools = {tool.name: tool for tool in available}

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run a tool call in this process."""
        if tool.name not in self._tools:  # other calls are answered during the import
            self._tools[tool.name] = await asyncio.to_thread(find_tool, tool.name)
        return await invoke(self._tools[tool.name], request, self._app)

    async def health(self) -> dict[str, str]:
        """Check the database, the only service on which calls depend.

        Then the process is ready, so the models that the first search needs are loaded, too.
        """
        try:
            await self._app.ping()
        except CarrelError as error:
            return {"firestore": error.message}
        await load_multilingual_model(self._app)
        return {"firestore": "ok"}
