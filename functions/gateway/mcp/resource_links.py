"""Resource URIs: their templates, and the links in a tool's result.

A template has one variable, in braces: `carrel://chunk/{chunk_id}`. Ids consist of characters that
URIs do not reserve, so nothing needs percent-encoding.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.runtime.tool import Links

MIME_TYPE: Final = "application/json"
"""Every resource has this media type."""
_VARIABLE: Final = re.compile(r"\{(\w+)\}")


def get_variable_name(template: str) -> str:
    """Return the name of a template's variable, such as `chunk_id`."""
    [name] = _VARIABLE.findall(template)  # a template has exactly one
    return str(name)  # `findall` returns Any


def expand_template(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template's variable."""
    return _VARIABLE.sub(lambda match: str(values[match[1]]), template)


def match_template(template: str, uri: str) -> dict[str, str] | None:
    """Return a template's variable with its value in a URI, or None if the URI does not match."""
    prefix, name, suffix = _VARIABLE.split(template)
    uri_match = re.fullmatch(f"{re.escape(prefix)}([^/?#]+){re.escape(suffix)}", uri)
    return {name: uri_match[1]} if uri_match else None


def build_resources(result: dict[str, Any], links: Links) -> list[types.Resource]:
    """Make the resources that a result links to, in the order of the result."""
    return [
        types.Resource(uri=uri, name=name, mime_type=MIME_TYPE)
        for uri, name in _iterate_links(result, links)
    ]


def build_link_blocks(result: dict[str, Any], links: Links) -> list[types.ResourceLink]:
    """Make the content blocks with the links of a result, in the order of the result."""
    return [
        types.ResourceLink(type="resource_link", uri=uri, name=name, mime_type=MIME_TYPE)
        for uri, name in _iterate_links(result, links)
    ]


def _iterate_links(result: dict[str, Any], links: Links) -> Iterator[tuple[str, str]]:
    """Yield the URI and the name of each item that has an id. The id replaces a missing name.

    The gateway and a tool's function may run different releases, so declared fields may be missing.
    """
    id_field = get_variable_name(links.uri_template)
    for item in result.get(links.items_field) or []:
        if item_id := item.get(id_field):
            name = str(item.get(links.name_field) or item_id)
            yield expand_template(links.uri_template, item), name
