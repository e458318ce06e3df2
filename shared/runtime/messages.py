"""What a gateway and a tool say to each other.

A call on its way between the gateway and a tool, and what comes back.

The two are deployed one after the other: either must understand what the other's older or newer
self sends, so unknown fields are ignored and new ones have defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer, model_validator

from shared.core.caller import Caller
from shared.runtime.outcome import AuditFacts

if TYPE_CHECKING:
    from shared.core.errors import CarrelError


class CallRequest(BaseModel):
    """What the gateway sends to a tool.

    Attributes:
        call_id: Names the call in logs and in errors.
        arguments: As the client sent them.
        caller: Who the gateway found to be calling.
        deadline: Unix time in seconds after which nobody waits for the answer.
        embedding_key: The caller's own key, where the deployment embeds with that. It is shown by
            nothing but the JSON that goes to the tool.
    """

    # What is wrong with a request is told without its values, which may be the key.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    call_id: str
    arguments: dict[str, Any]
    caller: Caller
    deadline: float
    embedding_key: SecretStr | None = None

    @field_serializer("embedding_key", when_used="json-unless-none")
    def _told_to_the_tool(self, key: SecretStr) -> str:
        return key.get_secret_value()


class Receipt(BaseModel):
    """What a call cost, and what else is known of it.

    Attributes:
        documents_read: As Firestore bills them.
        documents_written: As Firestore bills them.
        round_trips: How many requests to Firestore had to wait for one another.
        milliseconds: From the arguments to the result.
        embedding_ms: Of these, waiting for the embedding model; None where it was not asked.
        bm25_ms: Of these, reading and scoring the lists of words; None where there was no need.
        price: What the call cost its caller, in millionths of a dollar; None: what the tool costs.
        replayed: True if the call had been done before, and this is the answer of then.
        task: The task that it worked in, if any; None also from a function that does not tell.
        notes: Facts for the log and the audit, by name, as `Outcome.facts` gave them.
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
        """What is told to the caller: what the call cost, and nothing that was noted of it."""
        return self.model_dump(exclude_none=True, exclude={"task", "notes"})


class WireError(BaseModel):
    """An error as `CarrelError.to_wire` makes it. Other servers' errors look otherwise."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    code: str
    message: str
    details: dict[str, Any]
    retry_after: float | None = None


class CallAnswer(BaseModel):
    """What a tool answers: a result, or an error.

    Attributes:
        result: What it returned.
        text: The result in words, where its tool has any of its own.
        error: What went wrong.
        receipt: What it cost.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    result: dict[str, Any] | None = None
    text: str | None = None
    error: WireError | None = None
    receipt: Receipt = Receipt()

    @classmethod
    def failed(cls, error: CarrelError) -> Self:
        """What is answered where this went wrong."""
        return cls(error=WireError.model_validate(error.to_wire()))

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.result is None) == (self.error is None):
            raise ValueError("an answer is a result or an error")
        return self
