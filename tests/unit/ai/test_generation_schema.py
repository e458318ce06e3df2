"""A class of answers becomes the JSON schema that is sent to a language model."""

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

    kind: Kind = Field(description="The kind of its fruit.")
    main: Part = Field(description="Its main part.")
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=9)]
    pattern: str | None = Field(default=None, description="The pattern of its leaves.")
    height: float = Field(ge=0, le=100)
    made: Literal["grown"]


def build_properties() -> dict[str, Any]:
    """Return the schemas of the fields of a plant."""
    properties: dict[str, Any] = build_answer_schema(Plant)["properties"]
    return properties


def test_a_schema_has_the_name_and_description_of_its_class() -> None:
    schema = build_answer_schema(Plant)
    assert schema["title"] == "Plant"
    assert schema["description"] == "A plant."
    assert schema["type"] == "object"
    assert schema["required"] == ["kind", "main", "parts", "height", "made"]


def test_definitions_are_inlined() -> None:
    assert "$" not in str(build_answer_schema(Plant))
    assert build_properties()["kind"] == {
        "type": "string",
        "enum": ["fruit", "nut"],
        "description": "The kind of its fruit.",
    }
    assert build_properties()["main"]["description"] == "Its main part."


def test_limits_are_stated_in_descriptions() -> None:
    title = {"type": "string", "description": "At most 20 characters."}
    assert build_properties()["main"]["properties"]["title"] == title
    assert build_properties()["parts"]["description"] == "At least 1 entries. At most 9 entries."
    assert build_properties()["height"] == {
        "type": "number",
        "description": "At least 0. At most 100.",
    }


def test_a_field_may_have_the_name_of_a_keyword() -> None:
    assert build_properties()["pattern"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "The pattern of its leaves.",
    }


def test_a_constant_is_an_enum_of_one_value() -> None:
    assert build_properties()["made"] == {"type": "string", "enum": ["grown"]}
