"""Selections of tools by the address: `/mcp?tools=knowledge,tasks`, `/mcp?readonly`.

A conversation pays tokens for every tool in the list, so an address can ask for fewer. Each
selection has its own MCP server, with the instructions, prompts and resources that fit its tools.
For OAuth, all addresses are the same resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from functions.gateway.mcp import chatgpt
from functions.gateway.mcp.server import build_server
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp.server.lowlevel import Server

    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """A selection of tools."""

    groups: frozenset[str]
    read_only: bool

    @classmethod
    def parse(
        cls, query: str, groups: Collection[str], default_groups: Collection[str] | None = None
    ) -> ToolSelection:
        """Parse the query of an address.

        Args:
            query: The query, without the question mark.
            groups: The groups that this deployment offers.
            default_groups: Those that are selected if the query has no parameter `tools`; by
                default, all.

        Raises:
            InvalidInput: The query has other parameters, or names an unknown group or one twice.
        """
        pairs = parse_qsl(query, keep_blank_values=True)
        parameters = dict(pairs)
        names = parameters.pop("tools", None)
        read_only = parameters.pop("readonly", None)
        if names is None:
            listed = list(groups if default_groups is None else default_groups)
        else:
            listed = [name.strip() for name in names.split(",")]
        chosen = set(listed)
        is_repeated = len(dict(pairs)) < len(pairs) or len(chosen) < len(listed)
        is_valid = chosen <= set(groups) or chosen == {chatgpt.GROUP}
        if is_repeated or parameters or read_only not in {None, "", "1", "true"} or not is_valid:
            raise InvalidInput(
                "The query of this URL does not select tools. A URL may end with /mcp?tools= and"
                f" one or more of {','.join(sorted(groups))}, or with /mcp?tools={chatgpt.GROUP};"
                " and with ?readonly or &readonly for the tools that change nothing."
            )
        return cls(frozenset(chosen), read_only is not None)


class SelectedServers:
    """The MCP servers of a deployment, one for each selection. Each is built on first use."""

    def __init__(
        self,
        catalog: Catalog,
        pipeline: CallPipeline,
        default_groups: Collection[str] | None = None,
    ) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._default_groups = default_groups
        self._servers: dict[ToolSelection, Server[Any]] = {}

    def find(self, query: str) -> Server[Any]:
        """Return the server for the query of an address.

        Raises:
            InvalidInput: The query is not a valid selection.
        """
        selection = ToolSelection.parse(query, self._catalog.groups, self._default_groups)
        if selection not in self._servers:
            self._servers[selection] = self._build(selection)
        return self._servers[selection]

    def _build(self, selection: ToolSelection) -> Server[Any]:
        catalog = self._catalog.select(selection.groups, read_only=selection.read_only)
        is_chatgpt = chatgpt.GROUP in selection.groups
        tools = chatgpt.ChatGptTools(self._catalog, self._pipeline) if is_chatgpt else None
        return build_server(catalog, self._pipeline, tools=tools)
