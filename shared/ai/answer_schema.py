"""The shape of an answer, as a language model is told it.

Limits are said in words, in the descriptions. Vertex AI overlooks some of JSON Schema's (the length
of a string), and refuses a schema in which the others multiply ("too many states for serving"): so
the shape alone is forced on the model, and what does not keep to the limits is found when its
answer is checked.
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
_KNOWN: Final = {"type", "format", "enum", "items", "anyOf", "oneOf", "properties", "required"}
"""What is forced on the model, beside a description that it reads."""


@cache
def answer_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of an answer; its title is the shape's name. Nobody is to change it."""
    return {"title": shape.__name__, **_told(inline_references(shape.model_json_schema()))}


def _told(schema: dict[str, Any]) -> dict[str, Any]:
    told = {key: _parts(key, value) for key, value in schema.items() if key in _KNOWN}
    if "const" in schema:
        told["enum"] = [schema["const"]]
    limits = [said.format(schema[key]) for key, said in _LIMITS.items() if key in schema]
    description = " ".join([schema.get("description", ""), *limits]).strip()
    return {**told, "description": description} if description else told


def _parts(key: str, value: Any) -> Any:
    """What stands under a key, with the limits of the schemas in it said in words."""
    match key:
        case "items":
            return _told(value)
        case "anyOf" | "oneOf":
            return [_told(each) for each in value]
        case "properties":
            return {name: _told(each) for name, each in value.items()}
    return value
