"""A tool is declared as data, with its arguments and result as JSON schemas."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

import pytest
from pydantic import Field

from shared.core.caller import Scope, Tier
from shared.runtime.context import Context
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool


class Order(StrEnum):
    """How to sort."""

    TITLE = "title"
    DATE = "date"


class In(Arguments):
    """Books to look for."""

    order: Order = Field(default=Order.TITLE, description="How to sort.")
    title: str = Field(description="Words of the title.")
    year: int | None = Field(default=None, ge=0, description="When it was published.")


class Author(Result):
    """Who wrote it."""

    title: str | None = Field(description="Dr., Prof. ...")


class Book(Result):
    """A book."""

    authors: list[Author] = Field(description="Who wrote it.")
    editor: Author | None = Field(description="Who edited it.")


class Out(Result):
    """The books that were found."""

    best: Book = Field(description="The best one.")
    others: dict[str, Book] = Field(description="The others by id.")


async def find_books(_args: In, _context: Context) -> Out:
    raise NotImplementedError


TOOL = Tool(
    name="find_books",
    title="Find books",
    description="For the model.",
    input=In,
    output=Out,
    run=find_books,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
    timeout=3.0,
)
AUTHOR = {"type": "object", "properties": {"title": {"type": "string"}}}
BOOK = {
    "type": "object",
    "properties": {"authors": {"type": "array", "items": AUTHOR}, "editor": AUTHOR},
}


def get_schema(side: str) -> dict[str, Any]:
    """Return the published schema of the arguments or of the result."""
    schema: dict[str, Any] = TOOL.declaration()[side]
    return schema


def test_a_tool_may_need_another_scope_than_its_effect() -> None:
    assert TOOL.scope is Scope.READ
    assert replace(TOOL, required_scope=Scope.CURATE).scope is Scope.CURATE


def test_a_declaration_has_everything_except_the_handler() -> None:
    declaration = TOOL.declaration()

    assert {key: value for key, value in declaration.items() if "Schema" not in key} == {
        "name": "find_books",
        "title": "Find books",
        "description": "For the model.",
        "effect": "read",
        "tier": "registered",
        "role": "reader",
        "scope": "carrel:read",
        "timeout": 3.0,
        "idempotent": False,
        "price": 0,
        "envelope": None,
        "resource": None,
        "links": None,
        "app": None,
        "internal": False,
        "completes": [],
        "absent_if_empty": ["order"],
    }


def test_a_result_is_published_as_names_and_types() -> None:
    assert get_schema("outputSchema")["properties"] == {
        "best": BOOK,
        "others": {"type": "object", "additionalProperties": BOOK},
    }


def test_limits_of_values_are_checked_but_not_published() -> None:
    assert In.model_json_schema()["properties"]["year"]["anyOf"][0]["minimum"] == 0
    assert "minimum" not in get_schema("inputSchema")["properties"]["year"]


def test_a_fields_description_beats_its_types() -> None:
    assert get_schema("inputSchema")["properties"]["order"] == {
        "type": "string",
        "enum": ["title", "date"],
        "default": "title",
        "description": "How to sort.",
    }


def test_generated_titles_are_dropped_but_not_fields() -> None:
    input_schema = get_schema("inputSchema")
    assert input_schema["properties"]["title"] == {
        "type": "string",
        "description": "Words of the title.",
    }
    assert input_schema["required"] == ["title"]
    assert "title" not in input_schema


def test_optional_arguments_are_published_without_null() -> None:
    assert get_schema("inputSchema")["properties"]["year"] == {
        "type": "integer",
        "description": "When it was published.",
    }


def test_each_declaration_is_a_new_object() -> None:
    get_schema("inputSchema")["properties"].clear()
    assert set(get_schema("inputSchema")["properties"]) == {"order", "title", "year"}


@pytest.mark.parametrize(
    ("effect", "seconds"), [(Effect.READ, 10.0), (Effect.WRITE, 30.0), (Effect.DESTROY, 30.0)]
)
def test_a_write_has_more_time_than_a_read(effect: Effect, seconds: float) -> None:
    assert replace(TOOL, effect=effect, timeout=None).declaration()["timeout"] == seconds


def test_writes_need_the_write_scope() -> None:
    assert [effect.scope for effect in Effect] == [Scope.READ, Scope.WRITE, Scope.WRITE]
