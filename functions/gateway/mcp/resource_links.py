"""Resource URIs: their templates, and the resources that a tool's result names.

A template has one variable, in braces. Ids are unreserved characters only, so that nothing is ever
percent-encoded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.runtime.tool import Links

MIME_TYPE: Final = "application/json"
"""The media type of every resource."""
_VARIABLE: Final = re.compile(r"\{(\w+)\}")


def variable(template: str) -> str:
    """The name of a template's variable."""
    [name] = _VARIABLE.findall(template)
    return str(name)


def expand(template: str, values: Mapping[str, Any]) -> str:
    """The URI that a template makes of a value for its variable."""
    return _VARIABLE.sub(lambda name: str(values[name[1]]), template)


def match(template: str, uri: str) -> dict[str, str] | None:
    """The variable and the value that make a template this URI, if any value does."""
    before, name, after = _VARIABLE.split(template)
    value = re.fullmatch(f"{re.escape(before)}([^/?#]+){re.escape(after)}", uri)
    return {name: value[1]} if value else None


def linked_resources(result: dict[str, Any], links: Links) -> list[types.Resource]:
    """The resources in a result, in its order."""
    return [
        types.Resource(uri=uri, name=name, mime_type=MIME_TYPE)
        for uri, name in _named(result, links)
    ]


def link_blocks(result: dict[str, Any], links: Links) -> list[types.ResourceLink]:
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
