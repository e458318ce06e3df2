"""What `fakes.vertex` answers where a Gemini model is asked for text: `generateContent`.

Unless a test says what to answer, the answer is made of the text, in the shape that is asked for:
the same text gives the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

Answerer = Callable[[str], object]
"""Makes the answer, anything that JSON can say, of the text that the model is given."""

ENTRIES: Final = 3
"""How many entries a list has in an answer."""
LONGEST: Final = 160
"""Characters of a string in an answer."""
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]*")
_FEW_WORDS: Final = {"name", "title", "topic", "topics", "keywords"}
"""Fields that hold a few words of the text rather than a sentence."""


def text_of(body: dict[str, Any]) -> str:
    """Return the text in a request's prompt, without the marker lines around it."""
    parts = [part["text"] for part in body["contents"][0]["parts"]]
    return str(parts[1] if len(parts) > 1 else parts[0])


def problem_with(body: dict[str, Any], model: str) -> str | None:
    """Why the service refuses a request as INVALID_ARGUMENT, if it does."""
    config = body.get("generationConfig", {})
    thinking = config.get("thinkingConfig", {})
    contents = body.get("contents", [])
    shaped, mime_type = config.get("responseJsonSchema"), config.get("responseMimeType")
    problems = {
        "The last turn must be the user's.": not contents or contents[-1]["role"] != "user",
        "A part has an empty text.": not all(
            part.get("text") for content in contents for part in content["parts"]
        ),
        "A shape needs the type application/json.": shaped and mime_type != "application/json",
        "A sub-schema with $ref has other properties.": _refers_badly(shaped),
        "The model does not support setting thinking_budget to 0.": (
            thinking.get("thinking_budget") == 0 and "pro" in model
        ),
        "Thinking level is not supported by this model.": (
            "thinking_level" in thinking and model.startswith("gemini-2")
        ),
        "Thinking is not supported by this model.": thinking and model.startswith("gemini-2.0"),
    }
    return next((problem for problem, is_present in problems.items() if is_present), None)


def filled(schema: dict[str, Any], text: str) -> object:
    """Return an answer of this shape, made of the words and the sentences of a text."""
    sentences = [match.strip() for match in _SENTENCE.findall(text) if match.strip()] or [
        "Nothing."
    ]
    return _filled(schema, sentences, 0, "")


def response(
    parts: Sequence[str], model: str, *, finish: str = "STOP", tokens: tuple[int, int, int]
) -> bytes:
    """Return an answer as the service words it.

    Args:
        parts: What the model said, in parts that belong together.
        model: The model.
        finish: Why it stopped.
        tokens: Of the prompt, of the answer and of the thoughts before it.
    """
    content: dict[str, Any] = {"role": "model", "parts": [{"text": part} for part in parts]}
    candidate = {"content": content, "finishReason": finish, "avgLogprobs": -0.1}
    return _response([candidate], model, tokens)


def without_candidates(model: str, feedback: dict[str, Any] | None = None) -> bytes:
    """Return an answer that holds none; `feedback` says why, where the service says it."""
    return _response([], model, (7, 0, 0), {"promptFeedback": feedback} if feedback else {})


def count(text: str) -> int:
    """About how many tokens a text has."""
    return max(1, len(text) // 4)


def _response(
    candidates: list[dict[str, Any]],
    model: str,
    tokens: tuple[int, int, int],
    more: dict[str, Any] | None = None,
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
        **(more or {}),
        "usageMetadata": {name: value for name, value in usage.items() if value},
        "modelVersion": model,
        "createTime": "2026-05-31T12:00:00.000000Z",
        "responseId": "response-1",
    }
    return json.dumps(answer).encode()


def _filled(schema: dict[str, Any], sentences: Sequence[str], place: int, name: str) -> object:
    """Return an answer of this shape, for position `place` of a list and the field `name`."""
    match schema.get("type"):
        case None:
            return _filled(schema["anyOf"][0], sentences, place, name)
        case "object":
            fields = schema.get("properties", {}).items()
            return {key: _filled(field, sentences, place, key) for key, field in fields}
        case "array":
            items = schema.get("items", {"type": "string"})
            return [_filled(items, sentences, place + n, name) for n in range(ENTRIES)]
        case "string" if "enum" in schema:
            return schema["enum"][place % len(schema["enum"])]
        case "string":
            return _line(sentences[place % len(sentences)], name)
    return {"integer": place + 1, "number": 0.9, "boolean": True}.get(schema["type"])


def _line(sentence: str, name: str) -> str:
    if name in _FEW_WORDS:
        return " ".join(sentence.rstrip(".!?").split()[:4])[:LONGEST]
    return sentence[:LONGEST].strip()


def _refers_badly(node: object) -> bool:
    if isinstance(node, dict):
        bad = "$ref" in node and any(not key.startswith("$") for key in node)
        return bad or any(map(_refers_badly, node.values()))
    return isinstance(node, list) and any(map(_refers_badly, node))
