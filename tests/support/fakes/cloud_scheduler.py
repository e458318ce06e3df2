"""A fake of Cloud Scheduler that starts jobs: `projects.locations.jobs.run`."""

import json
from typing import Any, Final

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

JOB: Final = "projects/a-test/locations/europe-west1/jobs/carrel-ingest"
"""The resource name of the job that `start_url` starts."""


class FakeCloudScheduler(LoopbackServer):
    """Cloud Scheduler on a port of this machine.

    Attributes:
        status: The HTTP status of the next answers.
        started_jobs: The resource name of each started job, with the bearer token of the request.
    """

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.status = 200
        self.started_jobs: list[tuple[str, str]] = []

    @property
    def start_url(self) -> str:
        """The URL that starts the job."""
        return f"http://127.0.0.1:{self.server_port}/v1/{JOB}:run"


class _Handler(LoopbackHandler):
    server: FakeCloudScheduler

    def do_POST(self) -> None:
        self.read_body()
        status = self.server.status
        answer: dict[str, Any] = {"error": {"code": status, "status": "UNAVAILABLE"}}
        name, _, method = self.path.removeprefix("/v1/").rpartition(":")
        if status == 200 and method == "run":
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self.server.started_jobs.append((name, token))
            answer = {"name": name, "state": "ENABLED"}
        headers = {"Content-Type": "application/json"}
        self.send_answer(status, json.dumps(answer).encode(), headers)
