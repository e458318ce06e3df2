"""One call of a tool, whoever needs it: limited, paid, dispatched, logged."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError

from functions.gateway.calls.arguments import invalid_arguments
from functions.gateway.calls.billing import bill_for, close
from functions.gateway.calls.call_log import log_call
from shared.core.errors import CarrelError, Unauthorized, Unavailable, internal_error
from shared.core.log import error_fields, log
from shared.runtime.messages import CallAnswer, CallRequest
from shared.runtime.schemas import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Visitor
    from functions.gateway.calls.billing import Billing
    from functions.gateway.calls.dispatch import Dispatcher
    from functions.gateway.catalog import Declaration
    from functions.gateway.rate_limits import CallLimits
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock


class Calls:
    """Takes calls to their tools."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: CallLimits,
        billing: Billing,
        clock: Clock,
        keyring: Keyring,
    ) -> None:
        """Send calls by this dispatcher, as often as the limits allow and if somebody pays."""
        self._dispatcher = dispatcher
        self._limits = limits
        self._billing = billing
        self._clock = clock
        self._keyring = keyring

    async def call(
        self, tool: Declaration, arguments: dict[str, Any], visitor: Visitor
    ) -> CallAnswer:
        """Call a tool that the visitor may call. Whatever happens becomes an answer."""
        began = time.perf_counter()
        invalid = invalid_arguments(tool.name, arguments)
        request = CallRequest(
            call_id=call_id(tool, arguments, visitor),
            arguments={} if invalid else arguments,
            caller=visitor.caller,
            deadline=time.time() + tool.timeout,
            embedding_key=visitor.embedding_key,
        )
        try:
            await self._limits.take(visitor, tool.effect)
            if invalid:
                raise invalid
            answer = await self._paid(tool, request)
        except CarrelError as error:
            answer = CallAnswer.failed(error)
            if isinstance(error, Unauthorized):
                visitor.ask_to_sign_in(tool.effect.scope)
        except asyncio.CancelledError:
            self._log(tool, request, _UNANSWERED, began)
            raise
        self._log(tool, request, answer, began)
        visitor.reply.retry_after = answer.error.retry_after if answer.error else None
        return answer

    def _log(
        self, tool: Declaration, request: CallRequest, answer: CallAnswer, began: float
    ) -> None:
        log_call(tool, request, answer, self._keyring, seconds=time.perf_counter() - began)

    async def _paid(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Reserve what the call may cost before any work; charge what it did cost."""
        reservation = await self._billing.reserve(bill_for(tool, request, self._clock()))
        answer = await self._sent(tool, request)
        price = await close(self._billing, reservation, tool, answer)
        receipt = answer.receipt.model_copy(update={"price": price if tool.price else None})
        return answer.model_copy(update={"receipt": receipt})

    async def _sent(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        try:
            return await self._dispatcher.call(tool, request)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is an answer too, and is billed
            log.error("fault", tool=tool.name, call_id=request.call_id, **error_fields(error))
            return CallAnswer.failed(internal_error(tool.name, request.call_id))


_UNANSWERED: Final = CallAnswer.failed(Unavailable("The caller left before there was an answer."))
"""What the log says of such a call. Money that was set aside for it is given back after a while."""


def call_id(tool: Declaration, arguments: dict[str, Any], visitor: Visitor) -> str:
    """What names a call; the same call of the same user, sent again, has the same name."""
    key, user_id = arguments.get(IDEMPOTENCY_KEY), visitor.caller.user_id
    if not isinstance(key, str) or user_id is None:
        return uuid.uuid4().hex
    name = json.dumps([user_id, tool.name, key])
    return hashlib.sha256(name.encode()).hexdigest()[:32]
