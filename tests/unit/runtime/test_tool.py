"""A tool is declared as data, with its arguments and result as JSON schemas."""

from dataclasses import replace
from enum import StrEnum
from typing import Any

from pydantic import Field

from shared.core.caller import Scope, Tier
from shared.runtime.context import Context
from shared.runtime.schemas import FOR_APPS, Arguments, Result
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
    cover: str | None = Field(description="Its colour.", json_schema_extra=FOR_APPS)


class Out(Result):
    """The books that were found."""

    best: Book = Field(description="The best one.")
    others: list[Book] | None = Field(description="The others.")
    shelf: str = Field(description="Where they stand.", json_schema_extra=FOR_APPS)


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
        "listing": None,
        "app": None,
        "internal": False,
        "completes": [],
        "absent_if_empty": ["order"],
        "for_apps": ["best.cover", "others.cover", "shelf"],
    }


def test_schemas_are_published_without_what_clients_do_not_need() -> None:
    """A result has its fields and types. Arguments have no titles, null or limits."""
    assert get_schema("outputSchema")["properties"] == {
        "best": {"type": "object"},
        "others": {"type": "array"},
    }
    assert In.model_json_schema()["properties"]["year"]["anyOf"][0]["minimum"] == 0
    schema = get_schema("inputSchema")
    assert schema["properties"] == {
        "order": {
            "type": "string",
            "enum": ["title", "date"],
        },
        "title": {"type": "string", "description": "Words of the title."},
        "year": {"type": "integer", "description": "When it was published."},
    }
    assert schema["required"] == ["title"]
    assert "title" not in schema

    schema["properties"].clear()  # each declaration is a new object
    assert set(get_schema("inputSchema")["properties"]) == {"order", "title", "year"}


def test_a_write_needs_its_scope_and_has_more_time_than_a_read() -> None:
    plain = replace(TOOL, timeout=None)
    assert [
        (effect.scope, replace(plain, effect=effect).declaration()["timeout"]) for effect in Effect
    ] == [(Scope.READ, 10.0), (Scope.WRITE, 30.0), (Scope.WRITE, 30.0)]
