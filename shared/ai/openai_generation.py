"""Generation by any endpoint with OpenAI's chat completions: Ollama, LM Studio, OpenRouter, OpenAI.

A request contains only what all of these accept: the model, the messages and the shape of the
answer. The shape is also in the system's message, because a local server uses the schema to filter
words and does not show its descriptions to the model.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import AliasPath, BaseModel, Field, ValidationError

from shared.ai.answer_schema import build_answer_schema
from shared.ai.chat import REJECTED, ChatGenerator, Reply
from shared.ai.openai_endpoint import Key, OpenAIEndpoint, RejectedRequest
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import InvalidInput
from shared.core.http import retry_with_backoff

if TYPE_CHECKING:
    from pydantic import SecretStr

    from shared.ai.chat import Conversation

_SHAPE_NOTICE: Final = "Answer with a JSON object of this schema, and nothing else:"
_RETRY_SECONDS: Final = 90.0
"""After this time, a request that fails is not repeated, although an answer may take longer."""
_ROLES: Final = {"user": "user", "model": "assistant"}
_END_OF_THOUGHTS: Final = "</think>"
"""Some local models write their thoughts before the answer, and this line between the two."""


class OpenAIGenerator(ChatGenerator):
    """A language model at an endpoint with OpenAI's API."""

    provider = "openai"
    operation = "chat"

    def __init__(  # noqa: PLR0913 - keyword arguments from settings
        self,
        *,
        base_url: str,
        model: str,
        api_key: SecretStr | None = None,
        concurrency: int = 4,
        time_limit: float = 360.0,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Configure the endpoint. Connections open on first use.

        Args:
            base_url: The address without `/chat/completions`.
            time_limit: The seconds that a text may take. A third is for each attempt, since a model
                on a laptop is slow, and may answer one request after the other.
        """
        super().__init__(
            model,
            concurrency=concurrency,
            time_limit=time_limit,
            breaker=breaker or CircuitBreaker("The chat endpoint"),
        )
        self._endpoint = OpenAIEndpoint(
            kind="chat",
            base_url=base_url,
            path="chat/completions",
            model=model,
            time_limit=time_limit,
            rejection_advice="check GENERATION_MODEL",
        )
        self._key = Key(api_key)
        self._takes_schema = True

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _request(self, conversation: Conversation, deadline: float) -> Reply:
        """Send the conversation, without the schema's own field if the endpoint rejects that."""
        body = _build_request(conversation, self.model)
        if self._takes_schema:
            with suppress(RejectedRequest):  # Either the schema is rejected, or the text.
                return await self._send(body | _build_format(conversation.shape), deadline)
        try:
            reply = await self._send(body, deadline)
        except RejectedRequest:
            raise InvalidInput(REJECTED) from None
        self._takes_schema = False
        return reply

    async def _send(self, body: dict[str, Any], deadline: float) -> Reply:
        send = partial(self._endpoint.send, body, self._key, deadline)
        last_retry = asyncio.get_running_loop().time() + _RETRY_SECONDS
        content = await retry_with_backoff(send, deadline=min(deadline, last_retry))
        with suppress(ValidationError):  # It would quote the answer.
            answer = _Completion.model_validate_json(content)
            return Reply(
                text=_cut_json(answer.content or ""),
                refused=bool(answer.refusal) or answer.finish_reason == "content_filter",
                cut_off=answer.finish_reason == "length",
                input_tokens=answer.input_tokens,
                output_tokens=answer.output_tokens,
            )
        raise self._endpoint.make_invalid_answer_error("an answer that is not valid")


def _build_request(conversation: Conversation, model: str) -> dict[str, Any]:
    schema = json.dumps(build_answer_schema(conversation.shape), ensure_ascii=False)
    system = f"{conversation.system}\n\n{_SHAPE_NOTICE}\n{schema}"
    messages = [{"role": "system", "content": system}]
    for role, parts in conversation.turns:
        messages.append({"role": _ROLES[role], "content": "".join(parts)})
    return {"model": model, "messages": messages}


def _build_format(shape: type[BaseModel]) -> dict[str, Any]:
    """Build the field with the schema. It is not strict: `strict` forbids optional fields."""
    schema = {"name": shape.__name__, "schema": build_answer_schema(shape)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


class _Completion(BaseModel):
    """The endpoint's answer, as far as it is read."""

    finish_reason: str | None = Field(validation_alias=AliasPath("choices", 0, "finish_reason"))
    content: str | None = Field(
        None, validation_alias=AliasPath("choices", 0, "message", "content")
    )
    refusal: str | None = Field(
        None, validation_alias=AliasPath("choices", 0, "message", "refusal")
    )
    input_tokens: int = Field(0, validation_alias=AliasPath("usage", "prompt_tokens"))
    output_tokens: int = Field(0, validation_alias=AliasPath("usage", "completion_tokens"))


def _cut_json(answer: str) -> str:
    """Return an answer without thoughts before it, and without words or a fence around it."""
    _, _, text = answer.rpartition(_END_OF_THOUGHTS)
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text.strip()
