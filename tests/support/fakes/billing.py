"""A small billing service that misbehaves, as `gateway.calls.external_billing` describes it.

It keeps accounts, refuses what they do not cover, and remembers what it answered to an
`Idempotency-Key`. It takes one bearer token.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.fakes.http_server import HANGS, LoopbackServer

TOKEN = "token-of-tests"
SECRET = "what-the-service-says-stays-there"
"""Stands in every answer and in its headers, where no caller may find it."""
_STATES = {"/reserve": "reserved", "/settle": "settled", "/cancel": "cancelled"}


@dataclass(frozen=True)
class Reply:
    """What the service answers instead of the truth.

    Attributes:
        status: The HTTP status.
        body: The bytes; by default an error in words.
        headers: Headers beside the usual ones.
        pause: Seconds to think; forever is ended by the service's shutdown.
        dropped: Whether the connection breaks instead.
        done: Whether the service does what it was asked before it answers so.
    """

    status: int = 200
    body: bytes = json.dumps({"error": SECRET}).encode()
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    dropped: bool = False
    done: bool = False


DENIED = Reply(402)
BROKEN = Reply(500)
SLOW = Reply(pause=HANGS)
DROPPED = Reply(dropped=True)
DONE_AND_DROPPED = Reply(dropped=True, done=True)
GARBAGE = Reply(body=b"<html>" + SECRET.encode())
DEEP = Reply(body=b'{"state":' * 100_000)
OTHER_STATE = Reply(body=b'{"state": "cancelled"}')
MOVED = Reply(302, headers={"Location": "https://elsewhere.example/"})


@dataclass(frozen=True)
class Asked:
    """A request that arrived."""

    path: str
    key: str
    authorization: str
    body: dict[str, Any]


class FakeBilling(LoopbackServer):
    """Listens on a free port of this machine while the `with` block runs.

    Attributes:
        asked: The requests so far, in order of arrival.
        script: Answers to the next requests, in order; used up, the truth is told.
        balance: What the one user has left and not held.
        holds: Amounts set aside, by call id.
        spent: What was charged.
    """

    def __init__(self, *script: Reply, balance: int = 1_000) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.asked: list[Asked] = []
        self.script = deque(script)
        self.balance = balance
        self.holds: dict[str, int] = {}
        self.spent = 0
        self._answers: dict[str, tuple[int, bytes]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def operations(self) -> list[str]:
        """What was asked, in order."""
        return [request.path.rpartition("/")[2] for request in self.asked]

    def arrive(self, asked: Asked) -> Reply:
        """Note a request and choose its answer."""
        with self._lock:
            self.asked.append(asked)
            scripted = self.script.popleft() if self.script else None
            if scripted and not scripted.done:
                return scripted
            if asked.key not in self._answers:
                self._answers[asked.key] = self._do(asked)
            status, body = self._answers[asked.key]
            return scripted or Reply(status, body)

    def _do(self, asked: Asked) -> tuple[int, bytes]:
        operation, call_id = asked.path.removeprefix("/v1"), asked.body["call_id"]
        amount = int(asked.body["amount"])
        if operation == "/reserve":
            if amount > self.balance:
                return DENIED.status, DENIED.body
            self.balance -= amount
            self.holds[call_id] = amount
        else:
            amount_held = self.holds.pop(call_id)
            charged = min(amount, amount_held) if operation == "/settle" else 0
            self.spent += charged
            self.balance += amount_held - charged
        return 200, json.dumps({"state": _STATES[operation], "note": SECRET}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: the second would wait 40 ms
    server: FakeBilling

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, authorization = self.headers["Idempotency-Key"], self.headers["Authorization"]
        reply = self.server.arrive(Asked(self.path, key, authorization, body))
        self.server.pause(reply.pause)
        if reply.dropped:
            self.close_connection = True
            return
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            self._send(Reply(401) if authorization != f"Bearer {TOKEN}" else reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {**reply.headers, "X-Note": SECRET}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
