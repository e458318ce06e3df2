"""Calls of tools for tests, as the gateway makes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls import call_id
from functions.gateway.catalog import Declaration
from shared.call import CallRequest

if TYPE_CHECKING:
    from shared.caller import Caller
    from shared.tool import Tool


def request_of(tool: Tool[Any, Any], caller: Caller, arguments: dict[str, Any]) -> CallRequest:
    """A call; with the same idempotency key it is the same one."""
    declaration = Declaration.model_validate(tool.declaration())
    return CallRequest(
        call_id=call_id(declaration, arguments, Visitor(caller, None)),
        arguments=arguments,
        caller=caller,
        deadline=time.time() + 30,
    )
