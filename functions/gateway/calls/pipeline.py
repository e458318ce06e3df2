"""The pipeline of every tool call: rate limit, billing, dispatch, log line."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError

from functions.gateway.calls.arguments import check_arguments
from functions.gateway.calls.billing import close_bill, make_bill
from functions.gateway.calls.call_log import log_call
from functions.gateway.calls.normalization import normalize_arguments
from shared.core.errors import CarrelError, Unauthorized, Unavailable, make_internal_error
from shared.core.log import error_fields, log
from shared.core.telemetry import is_on, span
from shared.runtime.messages import CallAnswer, CallRequest
from shared.runtime.schemas import IDEMPOTENCY_KEY
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from functions.gateway.auth.visitor import Visitor
    from functions.gateway.calls.billing import Billing
    from functions.gateway.calls.dispatch import Dispatcher
    from functions.gateway.catalog import Declaration
    from functions.gateway.rate_limits import CallLimits
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.telemetry import TraceSpan

_ACCOUNT_HASH_PURPOSE: Final = "account in a trace"
"""The purpose of the signature that serves as a hash; see `Keyring`."""
_ACCOUNT_HASH_LENGTH: Final = 16
"""The number of Base64 characters of an account's hash. They are 96 bits, which do not collide."""


class CallPipeline:
    """The only way to call a tool, for MCP's tools, resources and completions, and for pages."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: CallLimits,
        billing: Billing,
        clock: Clock,
        keyring: Keyring,
    ) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._billing = billing
        self.clock = clock
        self._keyring = keyring

    async def call(
        self, tool: Declaration, arguments: dict[str, Any], visitor: Visitor
    ) -> CallAnswer:
        """Call a tool that the visitor may call. Every error becomes an answer.

        Arguments are normalized before anything else sees them, so that a call and its repetition
        in another form are one call.
        """
        start = time.perf_counter()
        arguments = normalize_arguments(
            arguments,
            tool.input_schema,
            is_read=tool.effect is Effect.READ,
            absent_if_empty=tool.absent_if_empty,
        )
        invalid = check_arguments(tool.name, arguments)
        request = CallRequest(
            call_id=make_call_id(tool, arguments, visitor),
            arguments={} if invalid else arguments,
            caller=visitor.caller,
            deadline=time.time() + tool.timeout,
            embedding_key=visitor.embedding_key,
        )
        with _start_call_span(tool, request, self._keyring) as call_span:
            try:
                await self._limits.take(visitor, tool.effect)
                if invalid:
                    raise invalid
                answer = await self._dispatch_billed(tool, request)
            except CarrelError as error:
                answer = CallAnswer.failed(error)
                if isinstance(error, Unauthorized):
                    visitor.require_sign_in(tool.effect.scope)
            except asyncio.CancelledError:
                self._log(tool, request, _ABANDONED_ANSWER, start)
                raise
            self._log(tool, request, answer, start)
            _record_answer(call_span, answer)
        visitor.response.retry_after = answer.error.retry_after if answer.error else None
        return answer

    def _log(
        self, tool: Declaration, request: CallRequest, answer: CallAnswer, start: float
    ) -> None:
        log_call(tool, request, answer, self._keyring, seconds=time.perf_counter() - start)

    async def _dispatch_billed(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Reserve the price before the call, and charge the actual cost after it.

        A free call that only reads is neither charged nor recorded.
        """
        if not tool.price and tool.effect is Effect.READ:
            return _set_price(await self._dispatch(tool, request), None)
        reservation = await self._billing.reserve(make_bill(tool, request, self.clock()))
        answer = await self._dispatch(tool, request)
        price = await close_bill(self._billing, reservation, tool, answer)
        return _set_price(answer, price if tool.price else None)

    async def _dispatch(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        try:
            return await self._dispatcher.call(tool, request)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - an internal error is answered and billed too
            log.error("fault", tool=tool.name, call_id=request.call_id, **error_fields(error))
            return CallAnswer.failed(make_internal_error(tool.name, request.call_id))


_ABANDONED_ANSWER: Final = CallAnswer.failed(
    Unavailable("The caller left before the answer was ready.")
)
"""The answer that is logged if the client disconnects. The reserved money is released later."""


def _set_price(answer: CallAnswer, price: int | None) -> CallAnswer:
    if answer.receipt.price == price:
        return answer
    receipt = answer.receipt.model_copy(update={"price": price})
    return answer.model_copy(update={"receipt": receipt})


def make_call_id(tool: Declaration, arguments: dict[str, Any], visitor: Visitor) -> str:
    """Make a call's id.

    If a user repeats a call with the same idempotency key, the id is the same. Without a key or
    without a user, it is random.
    """
    key = arguments.get(IDEMPOTENCY_KEY)
    user_id = visitor.caller.user_id
    if not isinstance(key, str) or user_id is None:
        return secrets.token_hex(16)
    identity = json.dumps([user_id, tool.name, key])
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _start_call_span(
    tool: Declaration, request: CallRequest, keyring: Keyring
) -> AbstractContextManager[TraceSpan]:
    """Record the `with` block as the span of a call.

    The span's name and attributes follow OpenTelemetry's conventions for generative AI:
    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#execute-tool-span
    """
    return span(
        f"execute_tool {tool.name}",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "enduser.pseudo.id": hash_account(request.caller.user_id, keyring) if is_on() else None,
        },
    )


def _record_answer(call_span: TraceSpan, answer: CallAnswer) -> None:
    """Add the receipt that the caller gets to the span of a call, and the code of an error."""
    costs = answer.receipt.cost()
    call_span.set({f"carrel.receipt.{name}": value for name, value in costs.items()})
    if answer.error:
        call_span.fail(answer.error.code)


def hash_account(user_id: str | None, keyring: Keyring) -> str | None:
    """Hash a user's id with a secret of the deployment, or return None for no user.

    When the secrets rotate, the hash changes.
    """
    if user_id is None:
        return None
    return keyring.sign(_ACCOUNT_HASH_PURPOSE, user_id)[:_ACCOUNT_HASH_LENGTH]
