"""The base classes of tools' arguments and results, and the types that many of them share."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

from shared.core.dates import Period, fold_period, load_time_zone, parse_days
from shared.core.ids import parse_source_id
from shared.core.text_validation import make_validation_error

if TYPE_CHECKING:
    from collections.abc import Sequence

IDEMPOTENCY_KEY: Final = "idempotency_key"
"""The name of the argument with which a client makes a call safe to retry."""
EMPTY_IS_ABSENT: Final[dict[str, Any]] = {"emptyIsAbsent": True}
"""Marks an optional text that nobody can mean to empty, in its schema; it is not published. Clients
that fill in every argument send an empty one for what the model left out."""

FOR_APPS: Final[dict[str, Any]] = {"forApps": True}
"""Marks a field of a result that only the apps and the console need, in its schema. Models do not
get it: it is in `_meta`, for clients with apps."""


class Arguments(BaseModel):
    """The base class of every tool's arguments: frozen, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class IdempotentArguments(Arguments):
    """The base class of the arguments of tools that write.

    Repeated calls with the same idempotency key take effect once.
    """

    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A random string: repeats with it take effect once.",
    )


class Result(BaseModel):
    """The base class of every tool's result and of the models within a result.

    Attributes:
        always_included: The fields of a result that its JSON includes as null if they are None.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    always_included: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that clients get.

        Fields that are None are omitted to save tokens, unless they are always included.
        """
        fields = self.model_dump(mode="json", exclude_none=True)
        return fields | {name: None for name in self.always_included if name not in fields}

    def list_changes(self) -> Sequence[Change]:
        """Return what the call changed, which `get_changes` lists."""
        return ()

    @classmethod
    def of(cls, record: object, **overrides: Any) -> Self:
        """Make a result from a record's attributes.

        Args:
            record: The object whose attributes have the names of the fields.
            overrides: The values of fields that are not taken from the record.

        Raises:
            AttributeError: The record lacks an attribute for a field without an override.
        """
        attributes = {
            name: getattr(record, name) for name in cls.model_fields if name not in overrides
        }
        return cls(**attributes, **overrides)


DocumentId = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]*[A-Za-z0-9-]$", max_length=200)
]
"""A document id that Firestore accepts and cannot take for a path. `safe_id` makes such ids."""
SourceId = Annotated[DocumentId, AfterValidator(parse_source_id)]
"""The id of a source. A passage's id stands for its source."""


def _validate_zone(name: str) -> str:
    try:
        load_time_zone(name)
    except ValueError as error:
        raise make_validation_error(f"is {error}") from None
    return name


ZoneName = Annotated[
    str,
    AfterValidator(_validate_zone),
    WithJsonSchema({"type": "string", "maxLength": 64, "examples": ["Europe/Berlin"]}),
]
"""The name of a time zone, which decides what day is today."""


def _validate_day(text: str) -> str:
    try:
        parse_days(text, UTC)
    except ValueError as error:
        raise make_validation_error(f"is {error}") from None
    return text


DayText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=40),
    AfterValidator(_validate_day),
    WithJsonSchema({"type": "string", "maxLength": 40}),
]
"""A day, month, year or time that `parse_days` can parse."""
PeriodName = Annotated[
    Period,
    BeforeValidator(fold_period),
    WithJsonSchema({"type": "string", "maxLength": 40, "examples": list(Period)}),
]
"""A period, also as people write it: `Last week` is `last_week`. Its error lists all of them."""
PERIODS: Final = "today, last_7_days, last_month ..."
"""The description of a period."""


class Undo(Result):
    """How to undo a call: the tool call that reverses its effect."""

    tool: str = Field(description="The tool to call.")
    arguments: dict[str, Any] = Field(description="The arguments to call it with.")

    def in_words(self) -> str:
        """Return the undo call on one line."""
        return f"Undo: {self.tool} {json.dumps(self.arguments, ensure_ascii=False)}"


class Change(Result):
    """What a call did to one thing."""

    action: str = Field(description="saved, edited, corrected, forgot, restored, added ...")
    id: str = Field(description="What was changed: a source, passage, task or trace.")
    title: str | None = Field(description="Its title.")
    undo: Undo | None = Field(description="How to undo it.")

    @classmethod
    def list_undoable(
        cls, action: str, changed_id: str, title: str | None, undo: Undo | None
    ) -> list[Self]:
        """Return the change in a list, which is empty if there is nothing to undo."""
        return [cls(action=action, id=changed_id, title=title, undo=undo)] if undo else []
