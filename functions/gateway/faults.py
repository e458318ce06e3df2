"""What nobody foresaw is logged without its words, and answered without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.gateway.http_errors import refused
from shared.core.errors import PlatformFault, ToolFailure
from shared.core.log import describe, log

if TYPE_CHECKING:
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Faults:
    """Answers what an app raises. The framework would log the request's path and all that is said.

    An error that its reader can act on is told as it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Catch what this app raises."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def watch(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
            answer = _answer(error)
            if not began:
                await answer(scope, receive, send)


def _answer(error: Exception) -> JSONResponse:
    if isinstance(error, ToolFailure):
        log.warning("refused", code=error.code, **describe(error))
        return refused(error)
    log.error("fault", **describe(error))
    return refused(PlatformFault("Carrel failed on its side. Try again later."))
