"""A gateway with faults that nobody foresaw: what it raises quotes what people sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.gateway.app import gateway
from functions.gateway.catalog import Catalog
from shared.core.settings import Settings
from tests.support.gateway_process import MARK

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer, CallRequest


class Faulty:
    """A dispatcher that breaks."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Quote the call."""
        raise RuntimeError(tool.name, request.arguments)

    async def health(self) -> dict[str, str]:
        """Quote somebody."""
        raise RuntimeError(MARK)


handle = gateway(Settings(), Faulty(), Catalog.load())
