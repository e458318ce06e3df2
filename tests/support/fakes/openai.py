"""A fake of OpenAI's API for embeddings and chats that can fail on demand.

The vector of a text is the sum of a random direction for each word, so texts that share words are
similar. A shorter vector consists of the first numbers of the longer one. For chats, see
`fakes.chat`.
"""

import contextlib
import json
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.fakes import chat
from tests.support.fakes.gemini import Answerer
from tests.support.fakes.http_server import HANGS, LoopbackHandler, LoopbackServer

DIMENSION: Final = 64
"""The default dimension of the model's vectors."""
MODEL: Final = "words-3-small"
"""The only embedding model."""
CHAT_MODEL: Final = "words-3-chat"
"""The only language model."""
TOKENS_PER_TEXT: Final = 3
"""The number of tokens that the server counts in every text."""
Item = dict[str, Any]
"""An entry of a response's `data`, with the vector of a text."""


@dataclass(frozen=True)
class Reply:
    """A reply of the server; by default, the texts' vectors without a pause.

    Attributes:
        status: The HTTP status.
        body: The bytes to send instead of the vectors.
        headers: Additional headers.
        missing: The number of bytes of the Content-Length that are never sent.
        pause: Seconds before the response; the server's shutdown ends the pause.
        alter: A function that changes the items of the correct response.
    """

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    pause: float = 0.0
    alter: Callable[[list[Item]], object] = list


def make_reply_with_changed_vectors(change: Callable[[list[float]], object]) -> Reply:
    """Make a reply with all vectors changed."""
    return Reply(
        alter=lambda items: [
            item | {"embedding": change(list(item["embedding"]))} for item in items
        ]
    )


HANG = Reply(pause=HANGS)
CUT_CONNECTION = Reply(missing=10)
"""The last ten bytes of the response are never sent."""
REVERSED = Reply(alter=lambda items: items[::-1])
ONE_MISSING = Reply(alter=lambda items: items[1:])
ONE_TWICE = Reply(alter=lambda items: [*items[:-1], items[0]])
NOT_A_NUMBER = make_reply_with_changed_vectors(lambda values: [math.nan, *values[1:]])
ZEROS = make_reply_with_changed_vectors(lambda values: [0.0 for _ in values])
ONE_NUMBER_SHORT = make_reply_with_changed_vectors(lambda values: values[1:])


def make_invalid_replies(text: str) -> list[Reply]:
    """Return replies without valid vectors; some quote the text."""
    return [
        Reply(204, body=b""),
        Reply(body=b"<html>Welcome to nginx!</html>"),
        Reply(body=b'{"object": "list", "data": [{"index": 0, "embedding": [0.1, 0.'),
        Reply(body=b'{"object": "list", "model": "words-3-small"}'),
        Reply(body=b'{"data":' * 100_000),
        Reply(body=json.dumps({"data": text}).encode()),
        make_reply_with_changed_vectors(lambda values: [None, *values[1:]]),
        make_reply_with_changed_vectors(lambda values: [text, *values[1:]]),
    ]


def make_error_reply(
    status: int, code: str = "", message: str = "", *, retry_after: str | None = None
) -> Reply:
    """Make an error in OpenAI's format: `{"error": {message, type, param, code}}`."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(status, json.dumps({"error": error}).encode(), headers)


def hash_words(text: str, dimension: int = DIMENSION) -> list[float]:
    """Return the vector of a text, deterministic and not of unit length."""
    total = [0.0] * DIMENSION
    for word in text.casefold().split() or [""]:
        numbers = random.Random(word)  # noqa: S311 - reproducible, nothing to keep secret
        total = [value + numbers.gauss() for value in total]
    return total[:dimension]


@dataclass(frozen=True)
class Call:
    """A request; `at` is its time on the monotonic clock."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float

    @property
    def key(self) -> str | None:
        """The bearer token."""
        authorization = self.headers.get("authorization")
        return authorization.removeprefix("Bearer ") if authorization is not None else None

    @property
    def texts(self) -> list[str]:
        """The texts to embed, or the text to process."""
        return [chat.get_text(self.body)] if self.is_chat else list(self.body["input"])

    @property
    def is_chat(self) -> bool:
        """Whether the request is for text rather than for vectors."""
        return self.path == "/v1/chat/completions"


class FakeOpenAI(LoopbackServer):
    """A fake endpoint on a free port while the `with` block runs.

    Attributes:
        calls: The requests so far, in order of arrival.
        script: The replies to the next requests, in order; later requests get `usual`.
        keys: The accepted keys; None accepts requests without a key.
        accepts_dimensions: Whether requests may specify the dimension of vectors.
        accepts_schemas: Whether requests may have a `response_format`.
        answers: Functions that make the answers of the language model, by the title of the schema.
        rejected_words: If not empty, requests with a text that contains this are rejected.
        words_without_vector: If not empty, responses to texts that contain this lack a vector.
        max_characters: The maximum number of characters of a request.
        peak: The maximum number of concurrent requests so far.
        connections: The number of connections opened.
    """

    def __init__(self, *script: Reply, usual: Reply | None = None) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.calls: list[Call] = []
        self.script = deque(script)
        self.usual = usual or Reply()
        self.keys: set[str] | None = None
        self.accepts_dimensions = True
        self.accepts_schemas = True
        self.answers: dict[str, Answerer] = {}
        self.rejected_words = ""
        self.words_without_vector = ""
        self.max_characters = 1_000_000
        self.peak = 0
        self.connections = 0
        self._under_way = 0
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        """The address for a client's settings."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def text_counts(self) -> list[int]:
        """The number of texts in each request so far."""
        return [len(call.texts) for call in self.calls]

    def arrive(self, call: Call) -> Reply:
        """Record a request and choose its reply."""
        with self._lock:
            self.calls.append(call)
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)
            return self.script.popleft() if self.script else self.usual

    def leave(self) -> None:
        """Record that a request has its reply, just before it is sent."""
        with self._lock:
            self._under_way -= 1

    def answer(self, call: Call, reply: Reply) -> Reply:
        """Check a request as an endpoint does, and answer it."""
        methods = {"/v1/embeddings": MODEL, "/v1/chat/completions": CHAT_MODEL}
        if call.body["model"] != methods.get(call.path):
            return make_error_reply(404, "model_not_found")
        if self.keys is not None and call.key not in self.keys:
            return make_error_reply(
                401, "invalid_api_key", f"Incorrect API key provided: {call.key}"
            )
        unsupported = set() if self.accepts_dimensions else {"dimensions"}
        unsupported |= set() if self.accepts_schemas else {"response_format"}
        if unsupported & call.body.keys():
            return make_error_reply(400, "", "The model does not support a parameter")
        if sum(map(len, call.texts)) > self.max_characters:
            return make_error_reply(413, "", "Too large")
        if not all(call.texts) or any(
            self.rejected_words and self.rejected_words in text for text in call.texts
        ):
            return make_error_reply(400, "", f"Invalid input: {call.texts!r}")
        return self._generate(call, reply) if call.is_chat else self._embed(call, reply)

    def _generate(self, call: Call, reply: Reply) -> Reply:
        body = chat.answer(call.body, self.answers)
        return Reply(reply.status, body, reply.headers, reply.missing)

    def _embed(self, call: Call, reply: Reply) -> Reply:
        if self.words_without_vector and any(
            self.words_without_vector in text for text in call.texts
        ):
            reply = ONE_MISSING
        items = [
            {
                "object": "embedding",
                "index": index,
                "embedding": hash_words(text, _get_requested_dimension(call)),
            }
            for index, text in enumerate(call.texts)
        ]
        token_count = TOKENS_PER_TEXT * len(items)
        usage = {"prompt_tokens": token_count, "total_tokens": token_count}
        answer = {"object": "list", "data": reply.alter(items), "model": MODEL, "usage": usage}
        return Reply(reply.status, json.dumps(answer).encode(), reply.headers, reply.missing)


def _get_requested_dimension(call: Call) -> int:
    return int(call.body.get("dimensions", DIMENSION))


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeOpenAI

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        call = self._read()
        reply = self.server.arrive(call)
        self.server.pause(reply.pause)
        self.server.leave()
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            self._send(reply if reply.body is not None else self.server.answer(call, reply))

    def _read(self) -> Call:
        body = json.loads(self.read_body())
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Call(self.path, headers, body, time.monotonic())

    def _send(self, reply: Reply) -> None:
        headers = reply.headers | {"Content-Type": "application/json"}
        self.send_answer(reply.status, reply.body or b"", headers, reply.missing)
