"""The JSON schema of an answer, as it is sent to a language model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from shared.ai.answer_schema import build_answer_schema


class Kind(StrEnum):
    FRUIT = "fruit"
    NUT = "nut"


class Part(BaseModel):
    title: str = Field(max_length=20)


class Plant(BaseModel):
    """A plant."""

    kind: Kind = Field(description="What it bears.")
    main: Part = Field(description="Its main part.")
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=9)]
    pattern: str | None = Field(default=None, description="Of its leaves.")
    height: float = Field(ge=0, le=100)
    made: Literal["grown"]


def list_fields() -> dict[str, Any]:
    properties: dict[str, Any] = build_answer_schema(Plant)["properties"]
    return properties


def test_a_schema_has_the_shapes_name_and_description() -> None:
    schema = build_answer_schema(Plant)
    assert schema["title"] == "Plant"
    assert schema["description"] == "A plant."
    assert schema["type"] == "object"
    assert schema["required"] == ["kind", "main", "parts", "height", "made"]


def test_definitions_are_inlined() -> None:
    assert "$" not in str(build_answer_schema(Plant))
    assert list_fields()["kind"] == {
        "type": "string",
        "enum": ["fruit", "nut"],
        "description": "What it bears.",
    }
    assert list_fields()["main"]["description"] == "Its main part."


def test_limits_are_stated_in_descriptions() -> None:
    title = {"type": "string", "description": "At most 20 characters."}
    assert list_fields()["main"]["properties"]["title"] == title
    assert list_fields()["parts"]["description"] == "At least 1 entries. At most 9 entries."
    assert list_fields()["height"] == {"type": "number", "description": "At least 0. At most 100."}


def test_a_field_may_have_the_name_of_a_keyword() -> None:
    assert list_fields()["pattern"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "Of its leaves.",
    }


def test_a_constant_is_the_only_choice() -> None:
    assert list_fields()["made"] == {"type": "string", "enum": ["grown"]}
