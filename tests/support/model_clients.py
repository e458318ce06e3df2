"""Clients of fake model services, and what their errors must not tell."""

import traceback
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from google.oauth2.credentials import Credentials
from pydantic import BaseModel, Field, SecretStr

from shared.ai.openai_embedding import OpenAIEmbedder
from shared.ai.openai_generation import OpenAIGenerator
from shared.ai.vertex_embedding import VertexEmbedder
from shared.ai.vertex_generation import VertexGenerator
from shared.core.errors import CarrelError
from tests.support.fakes import openai, vertex

CREDENTIAL = "a-credential-nobody-may-see"
CALLERS_KEY = SecretStr("sk-a-callers-own-key")
PRIVATE_TEXT = "what a reader wrote and nobody else may see"
INSTRUCTION = "Say what it is about."


class Note(BaseModel):
    """The subject of a text."""

    subject: str = Field(description="In a word.")
    words: Annotated[tuple[str, ...], Field(max_length=3)] = Field(description="Its main words.")


@asynccontextmanager
async def open_openai_embedder(
    server: openai.FakeOpenAI, **options: Any
) -> AsyncIterator[OpenAIEmbedder]:
    """Open an embedder on the fake server; options replace its default arguments."""
    defaults = {"base_url": server.base_url, "model": openai.MODEL, "dimension": 8}
    embedder = OpenAIEmbedder(**{**defaults, "api_key": SecretStr(CREDENTIAL), **options})
    try:
        yield embedder
    finally:
        await embedder.aclose()


@asynccontextmanager
async def open_vertex_embedder(
    server: vertex.FakeVertex, **options: Any
) -> AsyncIterator[VertexEmbedder]:
    """Open an embedder on the fake server; options replace its default arguments."""
    embedder = VertexEmbedder(**{**_make_vertex_options(server), "dimension": 8, **options})
    try:
        yield embedder
    finally:
        await embedder.aclose()


@asynccontextmanager
async def open_generator(
    server: vertex.FakeVertex, **options: Any
) -> AsyncIterator[VertexGenerator]:
    """Open a generator on the fake server; options replace its default arguments."""
    defaults = {**_make_vertex_options(server), "model": vertex.MODEL}
    generator = VertexGenerator(**{**defaults, **options})
    try:
        yield generator
    finally:
        await generator.aclose()


@asynccontextmanager
async def open_chat_generator(
    server: openai.FakeOpenAI, **options: Any
) -> AsyncIterator[OpenAIGenerator]:
    """Open a generator on the fake server; options replace its default arguments."""
    defaults = {"base_url": server.base_url, "model": openai.CHAT_MODEL}
    generator = OpenAIGenerator(**{**defaults, "api_key": SecretStr(CREDENTIAL), **options})
    try:
        yield generator
    finally:
        await generator.aclose()


def _make_vertex_options(server: vertex.FakeVertex) -> dict[str, Any]:
    return {
        "project": "shelf",
        "location": "europe-west4",
        "credentials": Credentials(token=CREDENTIAL),
        "base_url": server.base_url,
    }


async def fail(call: Awaitable[object]) -> CarrelError:
    """Return the error of a call, which must not tell the private text or a credential."""
    with pytest.raises(CarrelError) as failure:
        await call
    traceback_text = "".join(traceback.format_exception(failure.value))
    visible_text = traceback_text + str(failure.value.to_wire())
    for private in (PRIVATE_TEXT, CREDENTIAL, CALLERS_KEY.get_secret_value()):
        assert private not in visible_text
    return failure.value
