"""JSON schemas for readers that do not take all of JSON Schema."""

from __future__ import annotations

from typing import Any


def inline_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Put definitions where they are used, since some readers take no `$ref`, and drop titles.

    A schema that refers to itself has no end: there may be none.
    """
    definitions = schema.get("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(item) for item in node]
        if not isinstance(node, dict):
            return node
        named = inline(definitions[node["$ref"].rpartition("/")[2]]) if "$ref" in node else {}
        own = {key: inline(value) for key, value in node.items() if not _is_noise(key, value)}
        return {**named, **own}

    whole: dict[str, Any] = inline({key: value for key, value in schema.items() if key != "$defs"})
    return whole


def _is_noise(key: str, value: Any) -> bool:
    return key == "$ref" or (key == "title" and isinstance(value, str))
