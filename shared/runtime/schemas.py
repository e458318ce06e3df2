"""The bases of what tools take and answer, and what the schemas of many have in common."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

IDEMPOTENCY_KEY: Final = "idempotency_key"
"""The argument by which a call that is sent again is known to be the same one."""


class Arguments(BaseModel):
    """The base of every tool's input: unknown fields are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class IdempotentArguments(Arguments):
    """The base of the input of tools that write: sent again with the same key, they write once."""

    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Leave it out normally. To be able to send a call again whose answer may not"
        " arrive, give a fresh random text, such as a UUID, and the same one only to send that very"
        " call again: it is done once, and for two days answered as the first time.",
    )


class Result(BaseModel):
    """The base of every tool's output, and of what stands inside it.

    What is None is left out of the answer: it would cost the model tokens and tell it nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, record: object, **given: Any) -> Self:
        """The result that shows a record: a field is what is given, or the record's attribute.

        Raises:
            AttributeError: A field is neither given nor an attribute of the record.
        """
        attributes = {name: getattr(record, name) for name in cls.model_fields if name not in given}
        return cls(**attributes, **given)


DocumentId = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]*[A-Za-z0-9-]$", max_length=200)
]
"""An id as `safe_id` makes it: nothing that Firestore would refuse or take for a path."""


class Undo(Result):
    """A call that takes back what this one changed."""

    tool: str = Field(description="The tool to call.")
    arguments: dict[str, Any] = Field(description="What to call it with.")

    def in_words(self) -> str:
        """A sentence for who reads."""
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        return f"To undo this, call {self.tool} with {arguments}."
