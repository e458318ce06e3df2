"""Resource URIs and their templates, which have one variable in braces.

Ids are unreserved characters only, so that nothing is ever percent-encoded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLE = re.compile(r"\{(\w+)\}")


def variable(template: str) -> str:
    """The name of a template's variable."""
    [name] = _VARIABLE.findall(template)
    return str(name)


def expand(template: str, values: Mapping[str, Any]) -> str:
    """The URI that a template makes of a value for its variable."""
    return _VARIABLE.sub(lambda found: str(values[found[1]]), template)


def match(template: str, uri: str) -> dict[str, str] | None:
    """The variable and the value that make a template this URI, if any value does."""
    before, name, after = _VARIABLE.split(template)
    found = re.fullmatch(f"{re.escape(before)}([^/?#]+){re.escape(after)}", uri)
    return {name: found[1]} if found else None
