"""The base classes of tools' arguments and results, and the types that many of them share."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

IDEMPOTENCY_KEY: Final = "idempotency_key"
"""The argument that identifies a call that is sent again."""


class Arguments(BaseModel):
    """The base of every tool's input. It is frozen and refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class IdempotentArguments(Arguments):
    """The base of the input of tools that write. Calls with the same key take effect once."""

    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Normally left out. To be able to send this call again if its answer gets lost,"
        " pass a fresh random text such as a UUID, and the same one only to repeat this very call:"
        " it takes effect once, and for two days is answered as the first time.",
    )


class Result(BaseModel):
    """The base of every tool's output and of its parts.

    Fields that are None are left out of the answer: they would cost tokens and say nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, record: object, **given: Any) -> Self:
        """Make the result from a record; each field is given, or an attribute of the record.

        Raises:
            AttributeError: A field is neither given nor an attribute of the record.
        """
        attributes = {name: getattr(record, name) for name in cls.model_fields if name not in given}
        return cls(**attributes, **given)


DocumentId = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]*[A-Za-z0-9-]$", max_length=200)
]
"""An id as `safe_id` makes it, which Firestore neither refuses nor takes for a path."""


class Undo(Result):
    """The call that undoes this one."""

    tool: str = Field(description="The tool to call.")
    arguments: dict[str, Any] = Field(description="The arguments to call it with.")

    def in_words(self) -> str:
        """Return a sentence for people."""
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        return f"To undo this, call {self.tool} with {arguments}."
