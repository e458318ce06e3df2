"""The resources that a tool's result names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mcp_types as types

from functions.gateway.mcp.uris import expand, variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.tool import Links

MIME_TYPE: Final = "application/json"
"""What every resource is."""


def linked(result: dict[str, Any], links: Links) -> list[types.Resource]:
    """The resources in a result, in its order."""
    return [
        types.Resource(uri=uri, name=name, mime_type=MIME_TYPE)
        for uri, name in _named(result, links)
    ]


def blocks(result: dict[str, Any], links: Links) -> list[types.ResourceLink]:
    """The same as content of a tool's answer."""
    return [
        types.ResourceLink(type="resource_link", uri=uri, name=name, mime_type=MIME_TYPE)
        for uri, name in _named(result, links)
    ]


def _named(result: dict[str, Any], links: Links) -> Iterator[tuple[str, str]]:
    """Their URIs and names. A tool deployed earlier or later may lack what its declaration says."""
    for item in result.get(links.items) or []:
        if identifier := item.get(variable(links.uri)):
            yield expand(links.uri, item), str(item.get(links.name) or identifier)
