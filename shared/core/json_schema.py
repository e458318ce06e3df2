"""Simplifies JSON schemas for clients that do not support all of JSON Schema."""

from __future__ import annotations

from typing import Any


def inline_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace references by their definitions, since some clients do not resolve `$ref`.

    Titles are dropped. Recursive schemas are not supported.
    """
    definitions = schema.get("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(item) for item in node]
        if not isinstance(node, dict):
            return node
        definition = inline(definitions[node["$ref"].rpartition("/")[2]]) if "$ref" in node else {}
        own_keywords = {
            key: inline(value)
            for key, value in node.items()
            # A property may be named `title`, too; its value is a schema, not a string.
            if not (key == "$ref" or (key == "title" and isinstance(value, str)))
        }
        return {**definition, **own_keywords}

    root = {key: value for key, value in schema.items() if key != "$defs"}
    inlined_schema: dict[str, Any] = inline(root)
    return inlined_schema
