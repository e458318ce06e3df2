"""Log lines that show the trace of the request they were written for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from shared.core.log import traced

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Tracing:
    """Binds an app's requests to their traces. It goes around all other middleware."""

    def __init__(self, app: ASGIApp, project: str) -> None:
        """Show traces as those of this Google Cloud project."""
        self._app = app
        self._project = project

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; what is started for it inherits its trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with traced(Headers(scope=scope), self._project):
            await self._app(scope, receive, send)
