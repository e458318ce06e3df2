"""A fake billing service that can fail on demand.

It has the API that `functions.gateway.calls.external_billing` calls: an amount is reserved before a
tool call, and settled or cancelled after the call. The service has one account, rejects
reservations beyond its balance, and repeats its answer when it receives the same `Idempotency-Key`
again. It accepts one bearer token.
"""

import contextlib
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.support.fakes.http_server import HANGS, LoopbackHandler, LoopbackServer

TOKEN = "token-of-tests"
"""The accepted bearer token."""
SECRET = "what-the-service-says-stays-there"
"""A text in the body and the headers of every response, which no caller may see."""
_STATES = {"/reserve": "reserved", "/settle": "settled", "/cancel": "cancelled"}
"""The state of a reservation after each operation."""


@dataclass(frozen=True)
class Reply:
    """A reply in place of the correct one.

    Attributes:
        status: The HTTP status.
        body: The bytes; by default an error message.
        headers: Additional headers.
        pause: Seconds before the response; the server's shutdown ends the pause.
        is_dropped: Whether the connection is closed without a response.
        is_performed: Whether the service performs the operation nevertheless.
    """

    status: int = 200
    body: bytes = json.dumps({"error": SECRET}).encode()
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    is_dropped: bool = False
    is_performed: bool = False


DENIED = Reply(402)
BROKEN = Reply(500)
SLOW = Reply(pause=HANGS)
DROPPED = Reply(is_dropped=True)
DONE_AND_DROPPED = Reply(is_dropped=True, is_performed=True)
GARBAGE = Reply(body=b"<html>" + SECRET.encode())
DEEP = Reply(body=b'{"state":' * 100_000)
"""JSON that is nested more deeply than parsers accept."""
OTHER_STATE = Reply(body=b'{"state": "cancelled"}')
MOVED = Reply(302, headers={"Location": "https://elsewhere.example/"})


@dataclass(frozen=True)
class Request:
    """A request; `key` is its idempotency key."""

    path: str
    key: str
    authorization: str
    body: dict[str, Any]


class FakeBilling(LoopbackServer):
    """A fake billing service on a free port while the `with` block runs.

    Attributes:
        requests: The requests so far, in order of arrival.
        script: The replies to the next requests, in order; all later replies are correct.
        balance: The account's balance in micro-dollars, without reserved amounts.
        holds: The reserved amounts by call id, in micro-dollars.
        spent: The sum of all charges in micro-dollars.
    """

    def __init__(self, *script: Reply, balance: int = 1_000) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.requests: list[Request] = []
        self.script = deque(script)
        self.balance = balance
        self.holds: dict[str, int] = {}
        self.spent = 0
        self._answers: dict[str, tuple[int, bytes]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def operations(self) -> list[str]:
        """The operations of the requests, in order."""
        return [request.path.rpartition("/")[2] for request in self.requests]

    def arrive(self, request: Request) -> Reply:
        """Record a request, and choose its response."""
        with self._lock:
            self.requests.append(request)
            scripted_reply = self.script.popleft() if self.script else None
            if scripted_reply and not scripted_reply.is_performed:
                return scripted_reply
            if request.key not in self._answers:
                self._answers[request.key] = self._apply(request)
            status, body = self._answers[request.key]
            return scripted_reply or Reply(status, body)

    def _apply(self, request: Request) -> tuple[int, bytes]:
        operation, call_id = request.path.removeprefix("/v1"), request.body["call_id"]
        amount = int(request.body["amount"])
        if operation == "/reserve":
            if amount > self.balance:
                return DENIED.status, DENIED.body
            self.balance -= amount
            self.holds[call_id] = amount
        else:
            reserved_amount = self.holds.pop(call_id)
            charged_amount = min(amount, reserved_amount) if operation == "/settle" else 0
            self.spent += charged_amount
            self.balance += reserved_amount - charged_amount
        return 200, json.dumps({"state": _STATES[operation], "note": SECRET}).encode()


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeBilling

    def do_POST(self) -> None:
        body = json.loads(self.read_body())
        key, authorization = self.headers["Idempotency-Key"], self.headers["Authorization"]
        reply = self.server.arrive(Request(self.path, key, authorization, body))
        self.server.pause(reply.pause)
        if reply.is_dropped:
            self.close_connection = True
            return
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            self._send(Reply(401) if authorization != f"Bearer {TOKEN}" else reply)

    def _send(self, reply: Reply) -> None:
        headers = {**reply.headers, "X-Note": SECRET, "Content-Type": "application/json"}
        self.send_answer(reply.status, reply.body, headers)
