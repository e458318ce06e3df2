"""A gateway whose tools omit required fields from their results.

Tests run it to check that the smoke test compares results with the tools' output schemas.
"""

from functions.gateway.app import make_gateway
from functions.gateway.catalog import Catalog, Declaration
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, CallRequest


class IncompleteDispatcher:
    """A dispatcher whose results lack fields of the output schema."""

    async def call(self, _tool: Declaration, _request: CallRequest) -> CallAnswer:
        """Answer with a single field."""
        return CallAnswer(result={"chunks": 1})

    async def health(self) -> dict[str, str]:
        """Report a healthy tool."""
        return {"get_stats": "ok"}


# The functions framework serves this name; `run_gateway` starts it with this file.
handle = make_gateway(Settings(), IncompleteDispatcher(), Catalog.load())
