"""A gateway that fails at every call, with private text in its error messages.

Tests run it to check that neither answers nor logs contain the message of an internal error.
"""

from functions.gateway.app import make_gateway
from functions.gateway.catalog import Catalog, Declaration
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, CallRequest
from tests.support.gateway_process import PRIVATE_WORD


class FailingDispatcher:
    """A dispatcher whose methods raise errors that contain private text."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Raise an error with the arguments of the call, which contain `PRIVATE_WORD`."""
        raise RuntimeError(tool.name, request.arguments)

    async def health(self) -> dict[str, str]:
        """Raise an error with `PRIVATE_WORD`."""
        raise RuntimeError(PRIVATE_WORD)


# The functions framework serves this name; `run_gateway` starts it with this file.
handle = make_gateway(Settings(), FailingDispatcher(), Catalog.load())
