"""A tool is a value: its name, what it takes and returns, and the function that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.caller import Tier
    from shared.deps import Deps


class Arguments(BaseModel):
    """The base of every tool's input: unknown fields are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(BaseModel):
    """The base of every tool's output, and of what stands inside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


DocumentId = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]*[A-Za-z0-9-]$", max_length=200)
]
"""An id as `safe_id` makes it: nothing that Firestore would refuse or take for a path."""


class Effect(StrEnum):
    """What a tool does to data. It decides the tool's MCP hints and its service account's role."""

    READ = "read"
    WRITE = "write"
    DESTROY = "destroy"


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[ArgumentsT, ResultT]):
    """The declaration of one tool.

    Attributes:
        name: `verb_noun`, the name of its folder too.
        title: What people see.
        description: For the model: when to use the tool, and when another.
        input: What it takes; every field is described.
        output: What it returns; every field is described.
        run: The handler. It sees its arguments and its capabilities, never a request.
        effect: What it does to data.
        tier: Who may call it.
        timeout: Seconds it may take.
    """

    name: str
    title: str
    description: str
    input: type[ArgumentsT]
    output: type[ResultT]
    run: Callable[[ArgumentsT, Deps], Awaitable[ResultT]]
    effect: Effect
    tier: Tier
    timeout: float = 10.0

    def declaration(self) -> dict[str, Any]:
        """The tool as data: what the gateway's catalogue holds of it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": _schema(self.input.model_json_schema(mode="validation")),
            "outputSchema": _schema(self.output.model_json_schema(mode="serialization")),
            "effect": self.effect.value,
            "tier": self.tier.value,
            "timeout": self.timeout,
        }


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Put definitions where they are used, since some clients take no `$ref`, and drop titles."""
    definitions = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(item) for item in node]
        if not isinstance(node, dict):
            return node
        named = inline(definitions[node["$ref"].rpartition("/")[2]]) if "$ref" in node else {}
        own = {key: inline(value) for key, value in node.items() if not _is_noise(key, value)}
        return {**named, **own}

    inlined: dict[str, Any] = inline(schema)
    return inlined


def _is_noise(key: str, value: Any) -> bool:
    return key == "$ref" or (key == "title" and isinstance(value, str))
