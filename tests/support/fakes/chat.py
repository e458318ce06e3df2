"""Makes the answers of the fake of OpenAI's API to `chat/completions`.

By default, an answer consists of sentences of the text, in the requested schema. The same text
always gets the same answer.
"""

import json
from typing import Any

from tests.support.fakes import gemini

Body = dict[str, Any]
"""The body of a request."""


def get_text(body: Body) -> str:
    """Return the text in a request, without the marker lines around it."""
    return "\n".join(body["messages"][1]["content"].split("\n")[1:-1])


def get_schema(body: Body) -> dict[str, Any]:
    """Return the schema at the end of the system's message."""
    schema: dict[str, Any] = json.loads(body["messages"][0]["content"].rpartition("\n")[2])
    return schema


def make_answer(
    text: str | None,
    *,
    finish: str = "stop",
    tokens: tuple[int, int] | None = (100, 20),
    refusal: str | None = None,
) -> bytes:
    """Make the body of an answer.

    Args:
        text: The model's text.
        finish: The finish reason, such as length or content_filter.
        tokens: The numbers of tokens of the prompt and of the answer, if the server counts them.
        refusal: Why the model refuses to answer.
    """
    message = {"role": "assistant", "content": text, "refusal": refusal}
    answer: dict[str, Any] = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if tokens:
        answer["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return json.dumps(answer).encode()


def answer(body: Body, answers: dict[str, gemini.Answerer]) -> bytes:
    """Answer a request, by the function for its schema or with sentences of the text."""
    schema, text = get_schema(body), get_text(body)
    answerer = answers.get(schema["title"])
    value = answerer(text) if answerer else gemini.fill_schema(schema, text)
    content = json.dumps(value, ensure_ascii=False)
    tokens = (gemini.estimate_tokens(json.dumps(body)), gemini.estimate_tokens(content))
    return make_answer(content, tokens=tokens)
