"""The messages between the gateway and a tool: a call and its answer.

Gateway and tools are deployed one after the other, so each must understand older and newer
messages: unknown fields are ignored, and new fields have defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer, model_validator

from shared.core.caller import Caller
from shared.runtime.outcome import AuditFacts

if TYPE_CHECKING:
    from shared.core.errors import CarrelError


class CallRequest(BaseModel):
    """A call that the gateway sends to a tool.

    Attributes:
        arguments: The arguments as the client sent them.
        deadline: Unix time in seconds when the gateway stops waiting.
        embedding_key: The caller's key, if the deployment embeds with callers' keys. Only the JSON
            for the tool reveals the key.
    """

    # Validation errors must not quote values, because one of them may be the key.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    call_id: str
    arguments: dict[str, Any]
    caller: Caller
    deadline: float
    embedding_key: SecretStr | None = None

    @field_serializer("embedding_key", when_used="json-unless-none")
    def _reveal_to_tool(self, key: SecretStr) -> str:
        return key.get_secret_value()


class Receipt(BaseModel):
    """What a call cost, with facts for the log and the audit.

    Attributes:
        documents_read: Document reads that Firestore bills.
        documents_written: Document writes that Firestore bills.
        round_trips: The longest chain of requests to Firestore that waited for one another.
        embedding_ms: The milliseconds spent on embedding, or None if nothing was embedded.
        bm25_ms: The milliseconds spent on loading and scoring postings, or None if there were none.
        price: The price in millionths of a dollar, or None for the tool's own price.
        replayed: True if the answer was stored by an earlier call with the same idempotency key.
        task: The task in which the call worked, if any. Older functions do not report it.
        notes: The call's audit facts by name; see `Outcome.facts`.
    """

    documents_read: int = 0
    documents_written: int = 0
    round_trips: int = 0
    milliseconds: float = 0.0
    embedding_ms: float | None = None
    bm25_ms: float | None = None
    price: int | None = Field(default=None, ge=0)
    replayed: bool | None = None
    task: str | None = None
    notes: AuditFacts = {}

    def cost(self) -> dict[str, Any]:
        """Return the receipt as the caller sees it, without the task and the audit facts."""
        return self.model_dump(exclude_none=True, exclude={"task", "notes"})


class WireError(BaseModel):
    """An error as `CarrelError.to_wire` writes it. Validation is strict and rejects other JSON."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    code: str
    message: str
    details: dict[str, Any]
    retry_after: float | None = None


class CallAnswer(BaseModel):
    """The answer to a call: a result or an error."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    result: dict[str, Any] | None = None
    text: str | None = None
    error: WireError | None = None
    receipt: Receipt = Receipt()

    @classmethod
    def failed(cls, error: CarrelError) -> Self:
        """Make the answer of a call that failed."""
        return cls(error=WireError.model_validate(error.to_wire()))

    @model_validator(mode="after")
    def _check_one_of_both(self) -> Self:
        if (self.result is None) == (self.error is None):
            raise ValueError("an answer has either a result or an error")
        return self
