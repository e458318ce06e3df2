"""The catalogue: every tool's declaration as data, so that listing imports no tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.envelope import Envelope
from shared.runtime.tool import Effect, Links, ResourceTemplate

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.core.caller import Caller
    from shared.core.settings import Settings

PATH: Final = Path(__file__).with_name("catalog.json")


class Declaration(BaseModel):
    """One tool, as `Tool.declaration` wrote it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    description: str
    input_schema: dict[str, Any] = Field(alias="inputSchema")
    output_schema: dict[str, Any] = Field(alias="outputSchema")
    effect: Effect
    tier: Tier
    timeout: float
    idempotent: bool = False
    price: int = 0
    envelope: Envelope | None = None
    resource: ResourceTemplate | None = None
    links: Links | None = None
    internal: bool = False
    completes: list[str] = []

    def is_open_to(self, caller: Caller) -> bool:
        """Whether this caller may call it."""
        return caller.may_call(self.tier, self.effect.scope)

    def to_mcp(self) -> types.Tool:
        """The tool as MCP lists it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.effect is Effect.READ,
                destructive_hint=self.effect is Effect.DESTROY,
                idempotent_hint=self.idempotent or self.effect is Effect.READ,
                open_world_hint=False,
            ),
        )


class Catalog:
    """The tools that the gateway knows, sorted by name."""

    def __init__(self, declarations: list[Declaration]) -> None:
        """Know these tools."""
        self._by_name = {tool.name: tool for tool in sorted(declarations, key=lambda d: d.name)}

    @classmethod
    def load(cls) -> Catalog:
        """Read the generated file beside this one."""
        return cls(TypeAdapter(list[Declaration]).validate_json(PATH.read_bytes()))

    def configured(self, settings: Settings) -> Catalog:
        """The tools of a deployment: those that it leaves on, with its own times and prices.

        Nothing links to a resource whose tool is off.

        Raises:
            InvalidInput: A setting names a tool that there is not.
        """
        self._refuse_unknown("DISABLED_TOOLS", settings.disabled_tools)
        self._refuse_unknown("TOOL_TIMEOUTS", settings.tool_timeouts)
        self._refuse_unknown("TOOL_PRICES", settings.tool_prices)
        off = settings.disabled_tools
        tools = [tool for tool in self._by_name.values() if tool.name not in off]
        readable = {tool.resource.uri for tool in tools if tool.resource}
        return Catalog([_configured(tool, settings, readable) for tool in tools])

    @property
    def names(self) -> list[str]:
        """The names of all its tools."""
        return list(self._by_name)

    def open_to(self, caller: Caller) -> list[Declaration]:
        """The tools that this caller may call."""
        return [tool for tool in self._reached_by(caller) if not tool.internal]

    def closed_to(self, name: str, caller: Caller) -> Declaration | None:
        """The tool of this name, if there is one and the caller needs more rights to call it."""
        tool = self._by_name.get(name)
        return tool if tool and not tool.internal and not tool.is_open_to(caller) else None

    def get(self, name: str, caller: Caller) -> Declaration | None:
        """The tool of this name, if there is one and the caller may call it."""
        return next((tool for tool in self.open_to(caller) if tool.name == name), None)

    def readable(self, caller: Caller) -> list[tuple[Declaration, ResourceTemplate]]:
        """The tools whose answers this caller may read as resources, and as which."""
        return [(tool, tool.resource) for tool in self._reached_by(caller) if tool.resource]

    def listed(self, caller: Caller) -> list[tuple[Declaration, Links]]:
        """The tools whose pages make up this caller's list of all resources."""
        linking = [(tool, tool.links) for tool in self._reached_by(caller) if tool.links]
        return [(tool, links) for tool, links in linking if links.listed]

    def completing(self, kind: str, caller: Caller) -> Declaration | None:
        """The tool that completes names of this kind, if there is one."""
        return next((tool for tool in self._reached_by(caller) if kind in tool.completes), None)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """What the tool of this name takes, if there is one."""
        tool = self._by_name.get(name)
        return tool.input_schema if tool else None

    def _reached_by(self, caller: Caller) -> list[Declaration]:
        return [tool for tool in self._by_name.values() if tool.is_open_to(caller)]

    def _refuse_unknown(self, variable: str, names: Collection[str]) -> None:
        if unknown := sorted(set(names) - self._by_name.keys()):
            wrong, right = ", ".join(unknown), ", ".join(self.names)
            raise InvalidInput(f"{variable} names {wrong}, and the tools are: {right}.")


def _configured(tool: Declaration, settings: Settings, readable: Collection[str]) -> Declaration:
    return tool.model_copy(
        update={
            "timeout": settings.tool_timeouts.get(tool.name, tool.timeout),
            "price": settings.tool_prices.get(tool.name, tool.price),
            "links": tool.links if tool.links and tool.links.uri in readable else None,
        }
    )
