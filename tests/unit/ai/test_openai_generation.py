"""The generator for OpenAI-compatible endpoints is tested with a fake server that can fail."""

import json
from typing import Any

import pytest

from shared.ai.answer_schema import build_answer_schema
from shared.ai.generation import Generated, InvalidAnswer
from shared.core.errors import InvalidInput
from tests.support.fakes import chat
from tests.support.fakes.openai import CHAT_MODEL, FakeOpenAI, Reply
from tests.support.model_clients import (
    CREDENTIAL,
    INSTRUCTION,
    PRIVATE_TEXT,
    Note,
    fail,
    open_chat_generator,
)

BEES = "Bees dance. They tell each other where flowers are."
NOTE = Note(subject="bees", words=("bees", "dance"))
VALID = NOTE.model_dump_json()
INVALID = json.dumps({"subject": "bees", "words": ["one", "two", "three", "four"]})


def make_reply(text: str | None, **options: Any) -> Reply:
    return Reply(body=chat.make_answer(text, **options))


async def generate_note(server: FakeOpenAI, text: str = BEES, **options: Any) -> Generated[Note]:
    async with open_chat_generator(server, **options) as generator:
        return await generator.generate(INSTRUCTION, text, Note)


async def test_a_request_has_key_model_messages_and_shape() -> None:
    with FakeOpenAI(make_reply(VALID, tokens=(120, 30))) as server:
        answer = await generate_note(server, base_url=f"{server.base_url}/")
    (call,) = server.calls
    assert answer == Generated(NOTE, input_tokens=120, output_tokens=30)
    assert call.path == "/v1/chat/completions"
    assert call.key == CREDENTIAL
    assert call.body.keys() == {"model", "messages", "response_format"}
    assert call.body["model"] == CHAT_MODEL
    assert [message["role"] for message in call.body["messages"]] == ["system", "user"]
    assert call.body["messages"][0]["content"].startswith(INSTRUCTION)
    assert call.texts == [BEES]
    schema = build_answer_schema(Note)
    assert chat.get_schema(call.body) == schema
    assert call.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "Note", "schema": schema},
    }


async def test_without_a_key_none_is_sent() -> None:
    with FakeOpenAI() as server:
        await generate_note(server, api_key=None)
    assert server.calls[0].key is None


async def test_an_endpoint_without_schemas_is_asked_without_from_then_on() -> None:
    with FakeOpenAI() as server:
        server.accepts_schemas = False
        async with open_chat_generator(server) as generator:
            for _ in range(2):
                await generator.generate(INSTRUCTION, BEES, Note)
    has_schema = ["response_format" in call.body for call in server.calls]
    assert has_schema == [True, False, False]


async def test_a_refused_text_does_not_make_later_requests_lose_the_schema() -> None:
    with FakeOpenAI() as server:
        server.rejected_words = PRIVATE_TEXT
        async with open_chat_generator(server) as generator:
            await fail(generator.generate(INSTRUCTION, PRIVATE_TEXT, Note))
            await generator.generate(INSTRUCTION, BEES, Note)
    assert "response_format" in server.calls[-1].body


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{VALID}\n```",
        f"Here it is:\n\n{VALID}\n\nDo you need more?",
        f"<think>\nBees {{dance}}.\n</think>\n\n{VALID}",
    ],
)
async def test_words_around_the_answer_are_ignored(text: str) -> None:
    with FakeOpenAI(make_reply(text)) as server:
        assert (await generate_note(server)).value == NOTE
    assert len(server.calls) == 1


@pytest.mark.parametrize("text", [INVALID, "Bees, of course.", "} {", "", None])
async def test_an_answer_of_another_shape_is_corrected_once(text: str | None) -> None:
    with FakeOpenAI(make_reply(text, tokens=(100, 20)), make_reply(VALID, tokens=None)) as server:
        answer = await generate_note(server)
    assert answer == Generated(NOTE, input_tokens=100, output_tokens=20)
    roles = [message["role"] for message in server.calls[1].body["messages"]]
    assert roles == ["system", "user", *(["assistant"] if text else []), "user"]
    assert "requested shape" in server.calls[1].body["messages"][-1]["content"]


async def test_two_answers_of_another_shape_are_an_error() -> None:
    with FakeOpenAI(usual=make_reply(PRIVATE_TEXT, tokens=(100, 20))) as server:
        failure = await fail(generate_note(server, PRIVATE_TEXT))
    assert type(failure) is InvalidAnswer
    assert failure.details == {"input_tokens": 200, "output_tokens": 40}


async def test_a_truncated_answer_is_not_sent_back() -> None:
    with FakeOpenAI(make_reply(VALID[:20], finish="length"), make_reply(VALID)) as server:
        await generate_note(server)
    assert "too long" in server.calls[1].body["messages"][-1]["content"]


@pytest.mark.parametrize(
    "reply", [make_reply(None, refusal="I cannot."), make_reply("", finish="content_filter")]
)
async def test_a_refused_text_is_not_sent_again(reply: Reply) -> None:
    with FakeOpenAI(reply) as server:
        failure = await fail(generate_note(server, PRIVATE_TEXT))
    assert type(failure) is InvalidInput
    assert len(server.calls) == 1
