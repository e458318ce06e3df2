"""A gateway whose tools leave out what they should say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.gateway.app import gateway
from functions.gateway.catalog import Catalog
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallRequest


class Forgetful:
    """A dispatcher that answers every call, and says less than was declared."""

    async def call(self, _tool: Declaration, _request: CallRequest) -> CallAnswer:
        """Say one thing."""
        return CallAnswer(result={"chunks": 1})

    async def health(self) -> dict[str, str]:
        """Be well."""
        return {"get_stats": "ok"}


handle = gateway(Settings(), Forgetful(), Catalog.load())
