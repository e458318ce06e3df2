"""A class of answers becomes the JSON schema that is sent to a language model."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from syrupy.assertion import SnapshotAssertion

from shared.ai.answer_schema import build_answer_schema


class Kind(StrEnum):
    FRUIT = "fruit"
    NUT = "nut"


class Part(BaseModel):
    title: str = Field(max_length=20)


class Plant(BaseModel):
    """A plant."""

    kind: Kind = Field(description="The kind of its fruit.")
    main: Part = Field(description="Its main part.")
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=9)]
    pattern: str | None = Field(default=None, description="The pattern of its leaves.")
    height: float = Field(ge=0, le=100)
    made: Literal["grown"]


def test_a_class_becomes_a_schema_without_references(snapshot: SnapshotAssertion) -> None:
    """Limits are stated in descriptions, and a field may have the name of a keyword."""
    schema = build_answer_schema(Plant)
    assert list(schema["properties"]) == list(Plant.model_fields)
    assert schema == snapshot
