"""The catalogue: the declarations of all tools as data, so listing tools imports none of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from shared.core.caller import Role, Scope, Tier
from shared.core.errors import InvalidInput
from shared.runtime.envelope import Envelope
from shared.runtime.tool import Effect, ResourceListing, ResourceTemplate

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.core.caller import Caller
    from shared.core.settings import Settings

PATH: Final = Path(__file__).with_name("catalog.json")
EXTRACTIONS: Final = "extractions"
"""The group of the tools that return what a language model has extracted."""
_WORD: Final = re.compile(r"\w+")


class Declaration(BaseModel):
    """One tool's declaration, in the format of `Tool.declaration`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    group: str = ""
    title: str
    description: str
    input_schema: dict[str, Any] = Field(alias="inputSchema")
    output_schema: dict[str, Any] = Field(alias="outputSchema")
    effect: Effect
    tier: Tier
    role: Role
    scope: Scope
    timeout: float
    idempotent: bool = False
    price: int = 0
    envelope: Envelope | None = None
    resource: ResourceTemplate | None = None
    listing: ResourceListing | None = None
    app: str | None = None
    internal: bool = False
    completes: list[str] = []
    absent_if_empty: list[str] = []
    for_apps: list[str] = []

    def is_open_to(self, caller: Caller) -> bool:
        """Return whether this caller may call the tool."""
        return caller.may_call(self.tier, self.scope, self.role)

    def is_for_clients(self, *, with_apps: bool) -> bool:
        """Return whether clients may call the tool: an internal one, only if they show its app."""
        return not self.internal or (with_apps and self.app is not None)

    def to_mcp(self, meta: dict[str, Any] | None = None) -> types.Tool:
        """Convert the declaration to MCP's format, with this `_meta`."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=types.ToolAnnotations(
                read_only_hint=self.effect is Effect.READ,
                destructive_hint=self.effect is Effect.DESTROY,
                idempotent_hint=self.idempotent or None,  # a tool that only reads always is
                open_world_hint=False,
            ),
            _meta=meta,
        )


class Catalog:
    """The tools of a deployment, sorted by name."""

    def __init__(
        self, declarations: list[Declaration], removed_names: frozenset[str] = frozenset()
    ) -> None:
        """Index the tools by name.

        Args:
            removed_names: The names of other tools, which Carrel has but does not offer here.
        """
        self._by_name = {
            tool.name: tool for tool in sorted(declarations, key=lambda tool: tool.name)
        }
        self.removed_names = removed_names

    @classmethod
    def load(cls) -> Catalog:
        """Read the generated file next to this one."""
        return cls(TypeAdapter(list[Declaration]).validate_json(PATH.read_bytes()))

    def apply_settings(self, settings: Settings) -> Catalog:
        """Apply a deployment's settings: disabled tools and groups, timeouts and prices.

        Raises:
            InvalidInput: A setting names a tool or a group that does not exist.
        """
        self._check_names("DISABLED_TOOLS", settings.disabled_tools)
        self._check_names("TOOL_TIMEOUTS", settings.tool_timeouts)
        self._check_names("TOOL_PRICES", settings.tool_prices)
        groups = frozenset(settings.tool_groups) or self.groups
        if unknown := sorted(groups - self.groups):
            raise InvalidInput(
                f"TOOL_GROUPS names unknown groups: {', '.join(unknown)}. The groups are:"
                f" {', '.join(sorted(self.groups))}."
            )
        tools = [_apply_settings(tool, settings) for tool in self._by_name.values()]
        return Catalog(tools, self.removed_names).select(
            groups, read_only=settings.read_only, excluded_names=settings.disabled_tools
        )

    def select(
        self,
        groups: Collection[str],
        *,
        read_only: bool = False,
        excluded_names: Collection[str] = (),
    ) -> Catalog:
        """Return the tools of these groups."""
        tools = [
            tool
            for tool in self._by_name.values()
            if tool.group in groups
            and tool.name not in excluded_names
            and (tool.effect is Effect.READ or not read_only)
        ]
        removed_names = self._by_name.keys() - {tool.name for tool in tools}
        return Catalog(tools, self.removed_names | removed_names)

    def list_default_groups(self, settings: Settings) -> frozenset[str]:
        """Return the groups that an address offers which names none.

        Without a language model, nothing is extracted, so those tools would find nothing.
        """
        extracts = settings.generation_provider != "extractive" or settings.tool_groups
        return self.groups if extracts else self.groups - {EXTRACTIONS}

    @property
    def groups(self) -> frozenset[str]:
        """The groups of all tools: the folders that contain them."""
        return frozenset(tool.group for tool in self._by_name.values())

    @property
    def names(self) -> list[str]:
        """The names of all tools."""
        return list(self._by_name)

    def offers_all_in(self, text: str) -> bool:
        """Return whether all tools that a text names are offered here."""
        return self.removed_names.isdisjoint(_WORD.findall(text))

    def list_tools_for(self, caller: Caller, *, with_apps: bool = False) -> list[Declaration]:
        """Return the tools that this caller may call, with those of apps if its client has them."""
        allowed = self._list_allowed(caller)
        return [tool for tool in allowed if tool.is_for_clients(with_apps=with_apps)]

    def find_forbidden(self, name: str, caller: Caller) -> Declaration | None:
        """Find the tool with this name, if the caller lacks the rights to call it."""
        tool = self._by_name.get(name)
        return tool if tool and not tool.internal and not tool.is_open_to(caller) else None

    def get(self, name: str, caller: Caller, *, with_apps: bool = False) -> Declaration | None:
        """Find the tool with this name, if the caller may call it."""
        tool = self._by_name.get(name)
        is_callable = tool and tool.is_for_clients(with_apps=with_apps) and tool.is_open_to(caller)
        return tool if is_callable else None

    @property
    def has_apps(self) -> bool:
        """Whether any tool has an app."""
        return any(tool.app for tool in self._by_name.values())

    def list_apps_for(self, caller: Caller) -> set[str]:
        """Return the names of the apps of the tools that this caller may call."""
        return {tool.app for tool in self._list_allowed(caller) if tool.app}

    def find_for_page(self, name: str, caller: Caller) -> Declaration | None:
        """Find the tool with this name for a page of the console, if the caller may call it.

        Pages may call internal tools, too.
        """
        tool = self._by_name.get(name)
        return tool if tool and tool.is_open_to(caller) else None

    def list_resource_templates_for(
        self, caller: Caller
    ) -> list[tuple[Declaration, ResourceTemplate]]:
        """Return the tools whose answers this caller may read as resources, with the templates."""
        return [(tool, tool.resource) for tool in self._list_allowed(caller) if tool.resource]

    def list_resource_listings_for(
        self, caller: Caller
    ) -> list[tuple[Declaration, ResourceListing]]:
        """Return the tools whose pages make up the list of the resources that this caller reads."""
        uris = {template.uri for _, template in self.list_resource_templates_for(caller)}
        return [
            (tool, tool.listing)
            for tool in self._list_allowed(caller)
            if tool.listing and tool.listing.uri_template in uris
        ]

    def find_completer(self, kind: str, caller: Caller) -> Declaration | None:
        """Find the tool that completes names of this kind."""
        return next((tool for tool in self._list_allowed(caller) if kind in tool.completes), None)

    def _list_allowed(self, caller: Caller) -> list[Declaration]:
        return [tool for tool in self._by_name.values() if tool.is_open_to(caller)]

    def _check_names(self, variable: str, names: Collection[str]) -> None:
        if unknown := sorted(set(names) - self._by_name.keys()):
            raise InvalidInput(
                f"{variable} names unknown tools: {', '.join(unknown)}. The tools are:"
                f" {', '.join(self.names)}."
            )


def _apply_settings(tool: Declaration, settings: Settings) -> Declaration:
    return tool.model_copy(
        update={
            "timeout": settings.tool_timeouts.get(tool.name, tool.timeout),
            "price": settings.tool_prices.get(tool.name, tool.price),
        }
    )
