"""The span of a call: the tool, who called it, and the receipt, but never any content."""

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
_ACCOUNT_HASH_LENGTH: Final = 16


def start_call_span(
    tool: Declaration, request: CallRequest, keyring: Keyring
) -> AbstractContextManager[TraceSpan]:
    """Record a call, from its limits to its bill, by the conventions for generative AI.

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


def record_answer(call: TraceSpan, answer: CallAnswer) -> None:
    """Add the receipt that the caller gets, and the code of an error."""
    receipt = answer.receipt.cost()
    call.set({f"carrel.receipt.{name}": value for name, value in receipt.items()})
    if answer.error:
        call.fail(answer.error.code)


def hash_account(user_id: str | None, keyring: Keyring) -> str | None:
    """Hash a user's id with a key. The hashes change when the secrets rotate."""
    if user_id is None:
        return None
    return keyring.sign(_ACCOUNT_HASH_PURPOSE, user_id)[:_ACCOUNT_HASH_LENGTH]
