"""A fake of Cloud Scheduler that starts jobs: `projects.locations.jobs.run`."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from tests.support.fakes.http_server import LoopbackServer

JOB: Final = "projects/a-test/locations/europe-west1/jobs/carrel-ingest"


class FakeCloudScheduler(LoopbackServer):
    """Cloud Scheduler on a port of this machine.

    Attributes:
        status: The HTTP status of the next answers.
        started_jobs: The jobs that were started, each with the token of the request.
    """

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.status = 200
        self.started_jobs: list[tuple[str, str]] = []

    @property
    def start_url(self) -> str:
        """The address that starts the job."""
        return f"http://127.0.0.1:{self.server_port}/v1/{JOB}:run"


class _Handler(BaseHTTPRequestHandler):
    server: FakeCloudScheduler

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = self.server.status
        answer: dict[str, Any] = {"error": {"code": status, "status": "UNAVAILABLE"}}
        name, _, method = self.path.removeprefix("/v1/").rpartition(":")
        if status == 200 and method == "run":
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self.server.started_jobs.append((name, token))
            answer = {"name": name, "state": "ENABLED"}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing to standard error."""
