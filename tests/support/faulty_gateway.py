"""A gateway with internal errors whose messages quote the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.gateway.app import make_gateway
from functions.gateway.catalog import Catalog
from shared.core.settings import Settings
from tests.support.gateway_process import MARK

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer, CallRequest


class FaultyDispatcher:
    """A dispatcher that always raises."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Raise an error that quotes the call."""
        raise RuntimeError(tool.name, request.arguments)

    async def health(self) -> dict[str, str]:
        """Raise an error that quotes private text."""
        raise RuntimeError(MARK)


handle = make_gateway(Settings(), FaultyDispatcher(), Catalog.load())
