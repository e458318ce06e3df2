"""The log line of a call: who, what, how long and at what price, but never any content.

The log-based metrics in `infra/build/log_metrics.json` read these fields. A distribution cannot
convert units, so durations are logged in seconds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from shared.accounts.call_record import measure_arguments
from shared.core.errors import InvalidInput
from shared.core.log import log

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.accounts.keyring import Keyring
    from shared.runtime.messages import CallAnswer, CallRequest

EVENT: Final = "tool_call"
_TASK_HASH_PURPOSE: Final = "task in the log"
_TASK_HASH_LENGTH: Final = 16
"""The number of characters of a logged hash of a task: enough to distinguish a user's tasks."""


def log_call(
    tool: Declaration,
    request: CallRequest,
    answer: CallAnswer,
    keyring: Keyring,
    *,
    seconds: float,
) -> None:
    """Write the log line of a call. Invalid arguments make it a warning, with their names."""
    receipt = answer.receipt
    task = receipt.task or request.caller.task
    is_invalid = answer.error is not None and answer.error.code == InvalidInput.code
    fields = {
        "task": task and hash_task(task, request.caller.user_id, keyring),
        "notes": receipt.notes or None,
        "code": answer.error and answer.error.code,
        "invalid": _name_invalid_arguments(tool, answer) if is_invalid else None,
        "embedding_seconds": _to_seconds(receipt.embedding_ms),
        "bm25_seconds": _to_seconds(receipt.bm25_ms),
    }
    write = log.warning if is_invalid else log.info
    write(
        EVENT,
        tool=tool.name,
        call_id=request.call_id,
        user=request.caller.user_id,
        outcome="error" if answer.error else "ok",
        price=receipt.price or 0,
        arguments=measure_arguments(request.arguments, tool.input_schema.get("properties", {})),
        documents_read=receipt.documents_read,
        documents_written=receipt.documents_written,
        round_trips=receipt.round_trips,
        milliseconds=receipt.milliseconds,
        seconds=round(seconds, 4),
        **{name: value for name, value in fields.items() if value is not None},
    )


def hash_task(task: str, user_id: str | None, keyring: Keyring) -> str:
    """Hash a task's name with a key, because names say what people work on.

    The hashes change when the secrets rotate.
    """
    return keyring.sign(_TASK_HASH_PURPOSE, json.dumps([user_id, task]))[:_TASK_HASH_LENGTH]


def _name_invalid_arguments(tool: Declaration, answer: CallAnswer) -> list[str]:
    """Return the declared arguments that an error is about; other names may be content."""
    paths = answer.error.details if answer.error else {}
    names = {path.partition(".")[0] for path in paths}
    return sorted(names & tool.input_schema.get("properties", {}).keys())


def _to_seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds / 1000, 4)
