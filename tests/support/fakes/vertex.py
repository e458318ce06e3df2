"""A fake of Vertex AI that can fail on demand.

It supports the requests that google-genai sends to
`.../publishers/google/models/{model}:{method}`.

- Embedding models have two methods. `predict` takes a text in `instances[0].content`, and returns
  the vector in `predictions[0].embeddings.values`. `embedContent` takes a text in `content`, and
  returns the vector in `embedding.values`.
- All other Gemini models have the method `generateContent`: see `fakes.gemini`.
"""

import contextlib
import json
import random
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.fakes import gemini
from tests.support.fakes.gemini import Answerer
from tests.support.fakes.http_server import HANGS, LoopbackHandler, LoopbackServer

MODEL = "gemini-2.5-flash"
"""The default language model. The server has every model whose name begins with `gemini-`."""
_EMBEDDERS = {
    "gemini-embedding-001": {"predict", "embedContent"},
    "gemini-embedding-2": {"embedContent"},
}
"""The methods of each embedding model."""
_TASK_TYPES = {"RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"}
"""The accepted purposes of an embedding."""


@dataclass(frozen=True)
class Reply:
    """A reply of the server; by default, the correct one without a pause.

    Attributes:
        status: The HTTP status.
        body: The bytes to send in place of the correct ones.
        headers: Additional headers.
        missing: The number of bytes of the Content-Length that are never sent.
        pause: Seconds to wait before the reply; the server's shutdown ends the pause.
        values: The numbers to send in place of the correct vector.
    """

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    pause: float = 0.0
    values: tuple[float, ...] | None = None


HANG = Reply(pause=HANGS)
CUT_CONNECTION = Reply(missing=10)
"""The last ten bytes of the response are never sent."""
CUT_JSON = Reply(body=b'{"embedding": {"values": [0.1, 0.')
NO_EMBEDDING = Reply(body=b'{"usageMetadata": {"promptTokenCount": 3}}')
NO_CANDIDATES = Reply(body=gemini.make_empty_response(MODEL))


def make_vector_reply(values: Iterable[float]) -> Reply:
    """Make a reply that has these numbers as the vector of any text."""
    return Reply(values=tuple(values))


def make_text_reply(
    *parts: str, finish: str = "STOP", tokens: tuple[int, int, int] = (100, 20, 0)
) -> Reply:
    """Make the reply of a language model.

    Args:
        parts: The parts of the text.
        finish: The finish reason, such as MAX_TOKENS, SAFETY or RECITATION.
        tokens: The numbers of tokens of the prompt, of the answer and of the thoughts.
    """
    return Reply(body=gemini.make_response(parts, MODEL, finish=finish, tokens=tokens))


def make_json_reply(value: object, tokens: tuple[int, int, int] = (100, 20, 0)) -> Reply:
    """Make the reply of a language model that returns this value as JSON."""
    return make_text_reply(json.dumps(value), tokens=tokens)


def make_blocked_reply(reason: str = "PROHIBITED_CONTENT") -> Reply:
    """Make the reply to a blocked prompt."""
    feedback = {"blockReason": reason, "blockReasonMessage": "The prompt was blocked."}
    return Reply(body=gemini.make_empty_response(MODEL, feedback))


def make_error_reply(
    status: int, reason: str = "", message: str = "", *, retry_after: str | None = None
) -> Reply:
    """Make an error in Google's format: `{"error": {code, message, status}}`."""
    body = {"error": {"code": status, "message": message, "status": reason}}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(status, json.dumps(body).encode(), headers)


def hash_words(text: str, dimension: int) -> list[float]:
    """Return the vector of a text, deterministic and not of unit length, like a truncated one."""
    numbers = random.Random(text)  # noqa: S311 - reproducible, nothing to keep secret
    return [numbers.gauss(0, 0.02) for _ in range(dimension)]


@dataclass(frozen=True)
class Call:
    """A request; `at` is its time on the monotonic clock."""

    path: str
    authorization: str | None
    body: dict[str, Any]
    at: float

    @property
    def model(self) -> str:
        """The requested model."""
        return self.path.rpartition("/")[2].partition(":")[0]

    @property
    def method(self) -> str:
        """The method that is called."""
        return self.path.rpartition(":")[2]

    @property
    def generates(self) -> bool:
        """Whether the request is for text rather than for a vector."""
        return self.method == "generateContent"

    @property
    def text(self) -> str:
        """The text to embed or to process."""
        if self.generates:
            return gemini.get_text(self.body)
        if self.method == "predict":
            return "".join(instance["content"] for instance in self.body["instances"])
        return str(self.body["content"]["parts"][0]["text"])

    @property
    def config(self) -> dict[str, Any]:
        """The configuration in the request, under the names of `embedContent` for `predict`."""
        if self.method == "predict":
            [instance] = self.body["instances"]
            return {"taskType": instance["task_type"], **self.body["parameters"]}
        return dict(self.body["generationConfig" if self.generates else "embedContentConfig"])

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of the answer."""
        return dict(self.config["responseJsonSchema"])


class FakeVertex(LoopbackServer):
    """A fake Vertex AI on a free port while the `with` block runs.

    Attributes:
        calls: The requests so far, in order of arrival.
        script: The replies to the next requests, in order; later requests get `usual`.
        rejected_words: If not empty, texts that contain this are rejected.
        replies_by_words: Replies to texts that contain certain words, by these words.
        answers: Functions that make the answers of language models, by the title of the requested
            schema. Other schemas are filled with sentences of the text.
        peak: The maximum number of concurrent requests so far.
    """

    def __init__(self, *script: Reply, usual: Reply | None = None) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.calls: list[Call] = []
        self.script = deque(script)
        self.usual = usual or Reply()
        self.rejected_words = ""
        self.replies_by_words: dict[str, Reply] = {}
        self.answers: dict[str, Answerer] = {}
        self.peak = 0
        self._under_way = 0
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def arrive(self, call: Call) -> Reply:
        """Record a request and choose its reply."""
        with self._lock:
            self.calls.append(call)
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)
            if self.rejected_words and self.rejected_words in call.text:
                return make_error_reply(400, "INVALID_ARGUMENT")
            for words, reply in self.replies_by_words.items():
                if words in call.text:
                    return reply
            return self.script.popleft() if self.script else self.usual

    def leave(self) -> None:
        """Record that a request has its reply, just before it is sent."""
        with self._lock:
            self._under_way -= 1


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeVertex

    def do_POST(self) -> None:
        call = self._read()
        reply = self.server.arrive(call)
        self.server.pause(reply.pause)
        self.server.leave()
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            self._send(reply if reply.body is not None else self._check_and_answer(call, reply))

    def _check_and_answer(self, call: Call, reply: Reply) -> Reply:
        """Check the request as the service does, and answer it."""
        if not (call.authorization or "").startswith("Bearer "):
            return make_error_reply(401, "UNAUTHENTICATED")
        if call.generates:
            return _generate(call, reply, self.server.answers)
        return _embed(call, reply)

    def _read(self) -> Call:
        body = json.loads(self.read_body())
        return Call(self.path, self.headers["Authorization"], body, time.monotonic())

    def _send(self, reply: Reply) -> None:
        headers = reply.headers | {"Content-Type": "application/json; charset=UTF-8"}
        self.send_answer(reply.status, reply.body or b"", headers, reply.missing)


def _embed(call: Call, reply: Reply) -> Reply:
    if call.method not in _EMBEDDERS.get(call.model, ()):
        return make_error_reply(404, "NOT_FOUND")
    if not call.text or call.config["taskType"] not in _TASK_TYPES:
        return make_error_reply(
            400, "INVALID_ARGUMENT", f"The text content is refused: {call.text!r}"
        )
    body = json.dumps(make_embedding_answer(call, reply.values)).encode()
    return Reply(reply.status, body, reply.headers, reply.missing)


def _generate(call: Call, reply: Reply, answers: dict[str, Answerer]) -> Reply:
    if "/publishers/google/models/gemini-" not in call.path or call.model in _EMBEDDERS:
        return make_error_reply(404, "NOT_FOUND")
    if problem := gemini.find_problem(call.body, call.model):
        return make_error_reply(400, "INVALID_ARGUMENT", f"{problem} {call.text!r}")
    answer = answers.get(call.schema["title"])
    value = answer(call.text) if answer else gemini.fill_schema(call.schema, call.text)
    text = json.dumps(value, ensure_ascii=False)
    tokens = (
        gemini.estimate_tokens(json.dumps(call.body["contents"])),
        gemini.estimate_tokens(text),
        0,
    )
    body = gemini.make_response([text], call.model, tokens=tokens)
    return Reply(reply.status, body, reply.headers, reply.missing)


def make_embedding_answer(call: Call, values: tuple[float, ...] | None = None) -> dict[str, Any]:
    """Make the response with a text's vector, or with other numbers, in the method's format."""
    if values is None:
        values = tuple(hash_words(call.text, call.config["outputDimensionality"]))
    if call.method == "predict":
        statistics = {"truncated": False, "token_count": 3}
        return {"predictions": [{"embeddings": {"values": values, "statistics": statistics}}]}
    usage = {"promptTokenCount": 3, "trafficType": "ON_DEMAND"}
    return {"embedding": {"values": values}, "usageMetadata": usage, "truncated": False}
