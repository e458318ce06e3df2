"""Makes the responses of the fake Vertex AI for Gemini models: the method `generateContent`.

By default, an answer consists of sentences of the text, in the requested schema. The same text
always gets the same answer.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

Answerer = Callable[[str], object]
"""A function that returns the answer, any JSON value, to the text that the model receives."""

LIST_LENGTH: Final = 3
"""The number of entries of lists in answers."""
MAX_STRING_LENGTH: Final = 160
"""The maximum number of characters of strings in answers."""
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]*")
_FEW_WORDS: Final = {"name", "title", "topic", "topics", "keywords"}
"""The fields whose value is a few words of the text rather than a sentence."""


def get_text(body: dict[str, Any]) -> str:
    """Return the text in a request's prompt, without the marker lines around it."""
    parts = [part["text"] for part in body["contents"][0]["parts"]]
    return str(parts[1] if len(parts) > 1 else parts[0])


def find_problem(body: dict[str, Any], model: str) -> str | None:
    """Return why the service rejects a request as INVALID_ARGUMENT, or None if it is valid."""
    config = body.get("generationConfig", {})
    thinking_config = config.get("thinkingConfig", {})
    contents = body.get("contents", [])
    schema, mime_type = config.get("responseJsonSchema"), config.get("responseMimeType")
    problems = {
        "The last turn must be the user's.": not contents or contents[-1]["role"] != "user",
        "A part has an empty text.": not all(
            part.get("text") for content in contents for part in content["parts"]
        ),
        "A schema needs the type application/json.": schema and mime_type != "application/json",
        "A sub-schema with $ref has other properties.": _has_invalid_reference(schema),
        "The model does not support setting thinking_budget to 0.": (
            thinking_config.get("thinking_budget") == 0 and "pro" in model
        ),
        "Thinking level is not supported by this model.": (
            "thinking_level" in thinking_config and model.startswith("gemini-2")
        ),
        "Thinking is not supported by this model.": thinking_config
        and model.startswith("gemini-2.0"),
    }
    return next((problem for problem, is_present in problems.items() if is_present), None)


def fill_schema(schema: dict[str, Any], text: str) -> object:
    """Return a value of this schema that consists of words and sentences of a text."""
    sentences = [match.strip() for match in _SENTENCE.findall(text) if match.strip()] or [
        "Nothing."
    ]
    return _fill(schema, sentences, 0, "")


def make_response(
    parts: Sequence[str], model: str, *, finish: str = "STOP", tokens: tuple[int, int, int]
) -> bytes:
    """Return a response in the service's format.

    Args:
        parts: The parts of the model's text.
        model: The model.
        finish: The finish reason.
        tokens: The numbers of tokens of the prompt, of the answer and of the thoughts.
    """
    content: dict[str, Any] = {"role": "model", "parts": [{"text": part} for part in parts]}
    candidate = {"content": content, "finishReason": finish, "avgLogprobs": -0.1}
    return _make_response([candidate], model, tokens)


def make_empty_response(model: str, feedback: dict[str, Any] | None = None) -> bytes:
    """Return a response without candidates, with the prompt's feedback if the service gives any."""
    return _make_response([], model, (7, 0, 0), {"promptFeedback": feedback} if feedback else {})


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text."""
    return max(1, len(text) // 4)


def _make_response(
    candidates: list[dict[str, Any]],
    model: str,
    tokens: tuple[int, int, int],
    extra_fields: dict[str, Any] | None = None,
) -> bytes:
    usage = {
        "promptTokenCount": tokens[0],
        "candidatesTokenCount": tokens[1],
        "thoughtsTokenCount": tokens[2],
        "totalTokenCount": sum(tokens),
        "trafficType": "ON_DEMAND",
    }
    answer = {
        **({"candidates": candidates} if candidates else {}),
        **(extra_fields or {}),
        "usageMetadata": {name: value for name, value in usage.items() if value},
        "modelVersion": model,
        "createTime": "2026-05-31T12:00:00.000000Z",
        "responseId": "response-1",
    }
    return json.dumps(answer).encode()


def _fill(schema: dict[str, Any], sentences: Sequence[str], index: int, name: str) -> object:
    """Return a value of this schema for the nth entry of a list, and for the field `name`."""
    match schema.get("type"):
        case None:
            return _fill(schema["anyOf"][0], sentences, index, name)
        case "object":
            fields = schema.get("properties", {}).items()
            return {key: _fill(field, sentences, index, key) for key, field in fields}
        case "array":
            items = schema.get("items", {"type": "string"})
            return [_fill(items, sentences, index + n, name) for n in range(LIST_LENGTH)]
        case "string" if "enum" in schema:
            return schema["enum"][index % len(schema["enum"])]
        case "string":
            return _make_line(sentences[index % len(sentences)], name)
    return {"integer": index + 1, "number": 0.9, "boolean": True}.get(schema["type"])


def _make_line(sentence: str, name: str) -> str:
    if name in _FEW_WORDS:
        return " ".join(sentence.rstrip(".!?").split()[:4])[:MAX_STRING_LENGTH]
    return sentence[:MAX_STRING_LENGTH].strip()


def _has_invalid_reference(node: object) -> bool:
    if isinstance(node, dict):
        is_invalid = "$ref" in node and any(not key.startswith("$") for key in node)
        return is_invalid or any(map(_has_invalid_reference, node.values()))
    return isinstance(node, list) and any(map(_has_invalid_reference, node))
