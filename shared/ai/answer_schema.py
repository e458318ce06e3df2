"""Builds the JSON schema of an answer for a language model.

The schema enforces only the shape: which fields there are, and their types. Limits, such as the
maximum length of a text, are only stated in the descriptions. Vertex AI ignores some of JSON
Schema's limits, and rejects schemas in which the other limits multiply ("too many states for
serving"). The limits are enforced when the answer is validated.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from shared.core.json_schema import inline_references

if TYPE_CHECKING:
    from pydantic import BaseModel

_LIMITS: Final = {
    "maxLength": "At most {} characters.",
    "minItems": "At least {} entries.",
    "maxItems": "At most {} entries.",
    "minimum": "At least {}.",
    "maximum": "At most {}.",
}
"""The sentence that states a limit in a description, by the limit's key in JSON Schema."""
_SHAPE_KEYS: Final = {"type", "format", "enum", "items", "anyOf", "oneOf", "properties", "required"}
"""Only these keys of a schema, which describe the shape, and its description are kept."""


@cache
def build_answer_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Build the JSON schema of an answer. The result is cached, and must not be modified."""
    return {
        "title": shape.__name__,
        **_describe_limits(inline_references(shape.model_json_schema())),
    }


def _describe_limits(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in whose descriptions the limits are, including those of its subschemas."""
    result = {
        key: _describe_sublimits(key, value) for key, value in schema.items() if key in _SHAPE_KEYS
    }
    if "const" in schema:  # an enumeration of one value means the same, and is supported
        result["enum"] = [schema["const"]]
    limits = [sentence.format(schema[key]) for key, sentence in _LIMITS.items() if key in schema]
    description = " ".join([schema.get("description", ""), *limits]).strip()
    return {**result, "description": description} if description else result


def _describe_sublimits(key: str, value: Any) -> Any:
    """Apply `_describe_limits` to the subschemas in the value of a schema's key, if any."""
    match key:
        case "items":
            return _describe_limits(value)
        case "anyOf" | "oneOf":
            return [_describe_limits(option) for option in value]
        case "properties":
            return {name: _describe_limits(field) for name, field in value.items()}
    return value
