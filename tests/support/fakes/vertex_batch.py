"""A fake of Vertex AI's batch prediction jobs that can fail on demand.

It supports the requests that google-cloud-aiplatform sends to
`/v1/projects/P/locations/L/batchPredictionJobs`: jobs are created, listed by display name, read and
cancelled. Enumerations are sent as numbers, which the client requests with `$alt`. A job reads its
requests from a fake Cloud Storage, and writes its answers there in another order. The server also
embeds single texts, and issues tokens like Google's metadata server, so that a process needs no
other Google service.
"""

import contextlib
import json
import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.http_server import HANGS, LoopbackHandler, LoopbackServer
from tests.support.fakes.vertex import Call, hash_words, make_embedding_answer

Operation = Literal["create", "list", "get", "cancel", "embed", "token"]
"""The operation of a request: four on jobs, the embedding of one text, and the issue of a token."""
Rewrite = Callable[[list[bytes]], list[bytes]]
"""A function that changes the lines of an output file."""

MODEL: Final = "gemini-embedding-001"
"""The only model of jobs."""
_FILTER: Final = re.compile(r'display_name="([^"]+)"')
_JOBS: Final = re.compile(r"/v1/projects/[^/]+/locations/[^/]+/batchPredictionJobs")
_JOB: Final = re.compile(_JOBS.pattern + r"/\d+(:cancel)?")
_STATE_NUMBERS: Final = {
    "JOB_STATE_UNSPECIFIED": 0,
    "JOB_STATE_QUEUED": 1,
    "JOB_STATE_PENDING": 2,
    "JOB_STATE_RUNNING": 3,
    "JOB_STATE_SUCCEEDED": 4,
    "JOB_STATE_FAILED": 5,
    "JOB_STATE_CANCELLING": 6,
    "JOB_STATE_CANCELLED": 7,
    "JOB_STATE_PAUSED": 8,
    "JOB_STATE_EXPIRED": 9,
    "JOB_STATE_UPDATING": 10,
    "JOB_STATE_PARTIALLY_SUCCEEDED": 11,
    "a newer state": 99,
}
"""The states of a job by their numbers (google/cloud/aiplatform/v1/job_state.proto)."""
_TOKEN: Final = {"access_token": "batch-token", "expires_in": 3600, "token_type": "Bearer"}


@dataclass(frozen=True)
class Fault:
    """A fault in one request.

    Attributes:
        status: The HTTP status; 200 serves the request.
        body: The bytes to send in place of the correct response.
        is_served: Whether the operation is performed nevertheless.
        pause: Seconds before the response; the server's shutdown ends the pause.
        retry_after: The Retry-After header, if any.
    """

    status: int = 200
    body: bytes | None = None
    is_served: bool = False
    pause: float = 0.0
    retry_after: str | None = None


HANG: Final = Fault(pause=HANGS, is_served=True)
THROTTLED: Final = Fault(429)
BROKEN: Final = Fault(500)
LOST: Final = Fault(503, is_served=True)
"""The operation is performed, but the response reports an error."""
CUT_JSON: Final = Fault(body=b'{"name": "projects/p/loc', is_served=True)


@dataclass
class Job:
    """A batch prediction job.

    Attributes:
        name: The resource name.
        request: The request that created the job.
        polls: The number of times that the state was read.
        state: The state.
        texts: The embedded texts, once it has succeeded.
    """

    name: str
    request: dict[str, Any]
    polls: int = 0
    state: str = "JOB_STATE_QUEUED"
    texts: list[str] = field(default_factory=list)

    def to_resource(self) -> dict[str, Any]:
        """Return the job's resource in the API, with numbers for enumerations."""
        resource = {**self.request, "name": self.name, "state": _STATE_NUMBERS[self.state]}
        resource["createTime"] = resource["updateTime"] = "2024-05-31T12:00:00.000000Z"
        if self.state == "JOB_STATE_FAILED":
            resource["error"] = {"code": 3, "message": "Secret words of what was sent."}
        return resource


class FakeVertexBatch(LoopbackServer):
    """A fake Vertex AI with batch jobs, on a free port while the `with` block runs.

    Attributes:
        storage: The fake Cloud Storage in which jobs read and write.
        jobs: The jobs by number, in the order of their creation.
        polls_until_end: The number of polls after which a job ends.
        final_state: The final state of jobs.
        rewrite: A function that changes the lines of each output file.
        dimension: The dimension of the vectors of jobs; by default, the requested one.
        embedded: The texts that were embedded one by one.
        faults: For each operation, the faults of the next requests, in order.
        calls: The number of requests for each operation.
    """

    def __init__(self, storage: FakeCloudStorage) -> None:
        """Open the port. Jobs read and write in `storage`."""
        super().__init__(_Handler)
        self.storage = storage
        self.jobs: dict[str, Job] = {}
        self.polls_until_end = 1
        self.final_state = "JOB_STATE_SUCCEEDED"
        self.rewrite: Rewrite = lambda lines: lines
        self.dimension: int | None = None
        self.embedded: list[str] = []
        self.faults: defaultdict[Operation, deque[Fault]] = defaultdict(deque)
        self.calls: Counter[Operation] = Counter()
        self._lock = threading.RLock()

    @property
    def base_url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def embedding_counts(self) -> Counter[str]:
        """The number of times that each text was embedded, online or by a successful job."""
        texts = [text for job in self.jobs.values() for text in job.texts]
        return Counter([*texts, *self.embedded])

    def arrive(self, operation: Operation) -> Fault:
        """Count a request, and return its fault."""
        with self._lock:
            self.calls[operation] += 1
            queue = self.faults[operation]
            return queue.popleft() if queue else Fault()

    def create(self, request: dict[str, Any], parent: str) -> Job:
        """Start a job, even if another one has the same display name, as the service does."""
        with self._lock:
            number = str(1_000 + len(self.jobs))
            self.jobs[number] = Job(f"{parent}/batchPredictionJobs/{number}", request)
            return self.jobs[number]

    def advance(self, job: Job) -> None:
        """Count a poll, and advance the state of the job."""
        with self._lock:
            job.polls += 1
            if job.state.endswith(("QUEUED", "RUNNING")):
                job.state = (
                    "JOB_STATE_RUNNING" if job.polls < self.polls_until_end else self.final_state
                )
                if job.state.endswith("SUCCEEDED"):
                    self._predict(job)

    def _predict(self, job: Job) -> None:
        [uri] = job.request["inputConfig"]["gcsSource"]["uris"]
        bucket, _, name = uri.removeprefix("gs://").partition("/")
        rows = [json.loads(line) for line in self.storage.blobs[bucket, name].content.splitlines()]
        job.texts = [row["request"]["content"]["parts"][0]["text"] for row in rows]
        lines = self.rewrite([self._answer(row) for row in reversed(rows)])
        folder = job.request["outputConfig"]["gcsDestination"]["outputUriPrefix"]
        folder = folder.removeprefix(f"gs://{bucket}/") + "/prediction-model-2024-05-31T12:00:00Z"
        self.storage.put(bucket, f"{folder}/predictions.jsonl", b"\n".join(lines))
        self.storage.put(bucket, f"{folder}/incremental.json", b"{}")

    def _answer(self, row: dict[str, Any]) -> bytes:
        config = row["request"]["embed_content_config"]
        assert config["task_type"] == "RETRIEVAL_DOCUMENT"
        text = row["request"]["content"]["parts"][0]["text"]
        values = hash_words(text, self.dimension or config["output_dimensionality"])
        response = {"embedding": {"values": values}, "usageMetadata": {"promptTokenCount": 3}}
        return json.dumps({**row, "status": "", "response": response}).encode()


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeVertexBatch

    def do_GET(self) -> None:
        if self._segments[0] in {"", "computeMetadata"}:
            self._answer_metadata()
        elif _JOBS.fullmatch(self._path):
            self._serve("list")
        else:
            assert _JOB.fullmatch(self._path), self.path
            self._serve("get")

    def do_POST(self) -> None:
        if _JOBS.fullmatch(self._path):
            self._serve("create")
        elif self._path.endswith(":cancel"):
            assert _JOB.fullmatch(self._path), self.path
            self._serve("cancel")
        else:
            self._serve("embed")

    def _serve(self, operation: Operation) -> None:
        body = json.loads(self.read_body() or b"{}")
        fault = self.server.arrive(operation)
        status = fault.status
        answer: dict[str, Any] = {}
        if fault == Fault():
            status, answer = self._execute(operation, body)
        elif fault.is_served:
            _, answer = self._execute(operation, body)
        self.server.pause(fault.pause)
        content = json.dumps(answer if status == 200 else _make_error(status)).encode()
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            self._send(status, fault.body or content, headers)

    def _execute(self, operation: Operation, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not (self.headers["Authorization"] or "").startswith("Bearer "):
            return 401, {}
        if operation != "embed":
            assert parse_qs(urlsplit(self.path).query)["$alt"] == ["json;enum-encoding=int"]
        match operation:
            case "create":
                return self._create(body)
            case "list":
                return 200, self._list()
            case "embed":
                return self._embed(body)
            case _:
                return self._answer_for_job(operation)

    def _create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        formats = body["inputConfig"]["instancesFormat"], body["outputConfig"]["predictionsFormat"]
        if body["model"] != f"publishers/google/models/{MODEL}" or formats != ("jsonl", "jsonl"):
            return 400, {}
        parent = "/".join(self._segments[-5:-1])
        return 200, self.server.create(body, parent).to_resource()

    def _list(self) -> dict[str, Any]:
        query = parse_qs(urlsplit(self.path).query)
        match = _FILTER.fullmatch(query["filter"][0])
        assert match
        jobs = self.server.jobs.values()
        resources = [job.to_resource() for job in jobs if job.request["displayName"] == match[1]]
        return {"batchPredictionJobs": resources} if resources else {}

    def _answer_for_job(self, operation: Operation) -> tuple[int, dict[str, Any]]:
        job = self.server.jobs.get(self._segments[-1].removesuffix(":cancel"))
        if job is None:
            return 404, {}
        if operation == "cancel":
            job.state = "JOB_STATE_CANCELLED"
            return 200, {}
        self.server.advance(job)
        return 200, job.to_resource()

    def _embed(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        call = Call(self.path, self.headers["Authorization"], body, time.monotonic())
        self.server.embedded.append(call.text)
        return 200, make_embedding_answer(call)

    def _answer_metadata(self) -> None:
        self.server.arrive("token")
        account = {"aliases": ["default"], "email": "jobs@example.test", "scopes": []}
        flavor = {"Metadata-Flavor": "Google"}
        if self._path.endswith("/universe-domain"):
            self._send(404, b"", flavor)  # as in projects of Google's public cloud
            return
        is_token = self._path.endswith("/token")
        self._send(200, json.dumps(_TOKEN if is_token else account).encode(), flavor)

    @property
    def _path(self) -> str:
        return urlsplit(self.path).path

    @property
    def _segments(self) -> list[str]:
        return self._path.strip("/").split("/")

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        content_type = {"Content-Type": "application/json; charset=UTF-8"}
        self.send_answer(status, body, headers | content_type)


def _make_error(status: int) -> dict[str, Any]:
    """Return an error in Google's format."""
    reasons = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    return {"error": {"code": status, "message": "Refused.", "status": reasons.get(status, "")}}
