"""Records a tool call as a telemetry span.

The span contains the tool, a hash of the user, and the receipt (what the call cost), but never any
content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.core.telemetry import is_on, span

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from functions.gateway.catalog import Declaration
    from shared.accounts.keyring import Keyring
    from shared.core.telemetry import TraceSpan
    from shared.runtime.messages import CallAnswer, CallRequest

_ACCOUNT_HASH_PURPOSE: Final = "account in a trace"
"""The purpose of the signature that serves as a hash; see `Keyring`."""
_ACCOUNT_HASH_LENGTH: Final = 16
"""The number of Base64 characters of an account's hash. They are 96 bits, which do not collide."""


def start_call_span(
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


def record_answer(call_span: TraceSpan, answer: CallAnswer) -> None:
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
