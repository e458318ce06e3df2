"""Batch prediction jobs and their files are tested with Google's clients and fake servers."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from shared.ai._vertex_batch import get_address
from shared.ai.batch_files import MAX_LINES, BatchFiles
from shared.ai.vertex_batch import BatchProgress, BatchRow, BatchState, VertexBatch
from shared.ai.vertex_client import VertexEndpoint
from shared.core.errors import InvalidInput, PlatformFault, RateLimited, Unavailable
from tests.support.fakes.cloud_storage import BROKEN as STORAGE_BROKEN
from tests.support.fakes.cloud_storage import (
    CLIENT_LEAVES_SOCKETS,
    CUT_CONNECTION,
    FakeCloudStorage,
)
from tests.support.fakes.cloud_storage import HANG as STORAGE_HANGS
from tests.support.fakes.cloud_storage import THROTTLED as STORAGE_THROTTLED
from tests.support.fakes.vertex_batch import (
    BROKEN,
    HANG,
    LOST,
    THROTTLED,
    FakeVertexBatch,
    Fault,
)
from tests.support.monotonic_clock import MonotonicClock

pytestmark = [CLIENT_LEAVES_SOCKETS]

SOURCE = "gs://bulk/work/task/input.jsonl"
DESTINATION = "gs://bulk/work/task/output"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """A fake Cloud Storage that Google's client connects to."""
    with FakeCloudStorage("bulk") as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def vertex(storage: FakeCloudStorage) -> Iterator[FakeVertexBatch]:
    with FakeVertexBatch(storage) as server:
        yield server


@pytest.fixture
async def batch(vertex: FakeVertexBatch) -> AsyncIterator[VertexBatch]:
    client = make_client(vertex.base_url)
    yield client
    await client.aclose()


@pytest.fixture
def offline_batch() -> VertexBatch:
    """A client that formats requests and parses answers without a server."""
    return make_client("http://nobody.invalid")


@pytest.fixture
async def files(
    storage: FakeCloudStorage,  # noqa: ARG001 - stands where Google's client looks
    monotonic: MonotonicClock,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[BatchFiles]:
    """Files in a folder, with attempts that time out early and many retries.

    The parameter is the time limit of an attempt, in seconds.
    """
    attempt = getattr(request, "param", 10)
    monkeypatch.setattr(time, "sleep", monotonic.advance)
    batch_files = BatchFiles("gs://bulk/work/", "p", attempt_seconds=attempt, retry_seconds=600)
    yield batch_files
    await batch_files.aclose()


def make_client(base_url: str, attempt_seconds: float = 20, credentials: Any = None) -> VertexBatch:
    """Make a client whose attempts time out after this many seconds."""
    endpoint = VertexEndpoint(
        project="p",
        location="europe-west1",
        credentials=credentials or Credentials(token="token"),
        base_url=base_url,
    )
    limits = {"time_limit": 60.0, "attempt_seconds": attempt_seconds}
    return VertexBatch(endpoint, model="gemini-embedding-001", dimension=4, **limits)


async def yield_blocks(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


async def read_lines(files: BatchFiles, name: str) -> list[bytes]:
    return [line async for lines in files.iterate_lines(name) for line in lines]


def make_answer(**fields: Any) -> bytes:
    return json.dumps({"key": "hash:chunk", "status": ""} | fields).encode()


def make_embedding(values: list[float]) -> dict[str, Any]:
    return {"embedding": {"values": values}}


async def test_a_job_is_started_with_the_documented_request(
    batch: VertexBatch, vertex: FakeVertexBatch
) -> None:
    name = await batch.submit("task", SOURCE, DESTINATION)
    [job] = vertex.jobs.values()

    assert name == job.name == "projects/p/locations/europe-west1/batchPredictionJobs/1000"
    assert job.request == {
        "displayName": "task",
        "model": "publishers/google/models/gemini-embedding-001",
        "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [SOURCE]}},
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": DESTINATION},
        },
    }


@pytest.mark.parametrize("fault", [LOST, THROTTLED, BROKEN, HANG])
@pytest.mark.usefixtures("instant_sleep")
async def test_a_retry_starts_no_second_job_of_the_same_name(
    vertex: FakeVertexBatch, fault: Fault
) -> None:
    vertex.faults["create"].append(fault)
    batch = make_client(vertex.base_url, attempt_seconds=0.5 if fault is HANG else 20)
    assert (await batch.submit("task", SOURCE, DESTINATION)).endswith("/1000")
    assert (await batch.submit("task", SOURCE, DESTINATION)).endswith("/1000")
    assert len(vertex.jobs) == 1
    assert not (await batch.submit("other", SOURCE, DESTINATION)).endswith("/1000")
    await batch.aclose()


@pytest.mark.parametrize(
    ("status", "error", "advice"),
    [
        (400, InvalidInput, "BULK_BUCKET"),
        (401, PlatformFault, "credentials"),
        (403, PlatformFault, r"grant its service account roles/aiplatform\.user"),
        (404, PlatformFault, "location"),
    ],
)
async def test_a_rejected_job_is_not_retried(
    batch: VertexBatch, vertex: FakeVertexBatch, status: int, error: type[Exception], advice: str
) -> None:
    vertex.faults["create"].append(Fault(status))
    with pytest.raises(error, match=advice):
        await batch.submit("task", SOURCE, DESTINATION)
    assert vertex.calls["create"] == 1


async def test_an_exhausted_quota_is_rate_limited(
    batch: VertexBatch, vertex: FakeVertexBatch
) -> None:
    vertex.faults["create"].append(Fault(429, retry_after="300"))
    with pytest.raises(RateLimited, match="quota") as error:
        await batch.submit("task", SOURCE, DESTINATION)
    assert error.value.retry_after == 300
    assert vertex.calls["create"] == 1


async def test_unusable_credentials_are_a_fault(vertex: FakeVertexBatch) -> None:
    batch = make_client(vertex.base_url, credentials=AnonymousCredentials())
    with pytest.raises(PlatformFault, match="credentials"):
        await batch.submit("task", SOURCE, DESTINATION)
    await batch.aclose()


@pytest.mark.usefixtures("instant_sleep")
async def test_an_unreachable_service_is_unavailable(storage: FakeCloudStorage) -> None:
    with FakeVertexBatch(storage) as server:
        pass
    batch = make_client(server.base_url)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await batch.submit("task", SOURCE, DESTINATION)
    await batch.aclose()


@pytest.mark.parametrize(
    ("location", "base_url", "expected"),
    [
        ("europe-west1", None, "europe-west1-aiplatform.googleapis.com"),
        ("global", None, "aiplatform.googleapis.com"),
        ("eu", None, "aiplatform.eu.rep.googleapis.com"),
        ("europe-west1", "http://127.0.0.1:1/", "http://127.0.0.1:1"),
    ],
)
def test_each_location_has_its_own_api_address(
    location: str, base_url: str | None, expected: str
) -> None:
    endpoint = VertexEndpoint(project="p", location=location, base_url=base_url)
    assert get_address(endpoint) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("JOB_STATE_SUCCEEDED", BatchState(BatchProgress.DONE, "JOB_STATE_SUCCEEDED")),
        ("JOB_STATE_PARTIALLY_SUCCEEDED", BatchProgress.DONE),
        ("JOB_STATE_FAILED", BatchState(BatchProgress.FAILED, "JOB_STATE_FAILED (code 3)")),
        ("JOB_STATE_CANCELLED", BatchProgress.FAILED),
        ("JOB_STATE_EXPIRED", BatchProgress.FAILED),
        ("JOB_STATE_PAUSED", BatchProgress.UNDER_WAY),
        ("JOB_STATE_UNSPECIFIED", BatchProgress.UNDER_WAY),
        ("a newer state", BatchState(BatchProgress.UNDER_WAY, "99")),
    ],
)
@pytest.mark.filterwarnings("ignore:Unrecognized JobState")
async def test_a_jobs_state_maps_to_its_progress(
    batch: VertexBatch,
    vertex: FakeVertexBatch,
    state: str,
    expected: BatchState | BatchProgress,
) -> None:
    name = await batch.submit("task", SOURCE, DESTINATION)
    vertex.final_state = vertex.jobs["1000"].state = state
    actual = await batch.get_state(name)
    assert expected == (actual if isinstance(expected, BatchState) else actual.progress)


async def test_a_job_that_is_gone_has_failed(batch: VertexBatch, vertex: FakeVertexBatch) -> None:
    name = await batch.submit("task", SOURCE, DESTINATION)
    vertex.jobs.clear()
    assert (await batch.get_state(name)).progress is BatchProgress.FAILED


def test_a_request_has_its_key_and_configuration(offline_batch: VertexBatch) -> None:
    line = json.loads(offline_batch.make_request_line("hash:chunk", "Brot\nund Wein"))
    config = {"task_type": "RETRIEVAL_DOCUMENT", "output_dimensionality": 4, "auto_truncate": True}
    content = {"parts": [{"text": "Brot\nund Wein"}]}
    request = {"content": content, "embed_content_config": config}

    assert line == {"key": "hash:chunk", "request": request}
    assert offline_batch.make_request_line("k", "a\nb").count(b"\n") == 1


OLD_ANSWER = {
    "instance": {"key": "hash:chunk"},
    "predictions": [{"embeddings": {"values": [0, 1, 0, 0], "statistics": {"token_count": 3}}}],
    "status": "",
}


@pytest.mark.parametrize(
    ("line", "vector"),
    [
        (make_answer(response=make_embedding([3.0, 0.0, 4.0, 0.0])), (0.6, 0.0, 0.8, 0.0)),
        (make_answer(response=make_embedding([1.0] * 4 + [7.0] * 2)), (0.5, 0.5, 0.5, 0.5)),
        (
            json.dumps(OLD_ANSWER).encode(),
            (0.0, 1.0, 0.0, 0.0),
        ),
    ],
    ids=["scaled", "cut to the dimension", "in the older format"],
)
def test_an_answer_gives_a_vector_of_length_one(
    offline_batch: VertexBatch, line: bytes, vector: tuple[float, ...]
) -> None:
    row = offline_batch.parse_answer(line)
    assert row
    assert row.key == "hash:chunk"
    assert row.vector == pytest.approx(vector)


@pytest.mark.parametrize(
    "line",
    [
        make_answer(status="INVALID_ARGUMENT: too long", response={}),
        make_answer(error={"code": 3}),
        make_answer(response=make_embedding([1.0])),
        make_answer(response=make_embedding([0.0] * 4)),
        make_answer(response={"embedding": {"values": ["a", "b", "c", "d"]}}),
        make_answer(response={"embedding": {"values": 7}}),
        make_answer(response=None),
        b'{"key": "hash:chunk", "response": {"embedding": {"values": [NaN, 1, 1, 1]}}}',
    ],
)
def test_an_answer_without_a_valid_vector_has_none(offline_batch: VertexBatch, line: bytes) -> None:
    assert offline_batch.parse_answer(line) == BatchRow("hash:chunk", None)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"7", b'{"response": {}}', b"\xff\xfe"])
def test_an_invalid_line_gives_no_answer(offline_batch: VertexBatch, line: bytes) -> None:
    assert offline_batch.parse_answer(line) is None


async def test_a_file_is_written_and_read_in_blocks(
    files: BatchFiles, storage: FakeCloudStorage
) -> None:
    line = b"x" * 999_999 + b"\n"
    await files.write("task/input.jsonl", yield_blocks(*[line] * 10))
    assert storage.list_names("bulk") == ["work/task/input.jsonl"]
    assert storage.calls["upload"] == 4  # the session and three pieces
    assert await read_lines(files, "task/input.jsonl") == [line] * 10
    assert files.get_address("task/input.jsonl") == "gs://bulk/work/task/input.jsonl"


async def test_lines_are_yielded_in_groups(files: BatchFiles, storage: FakeCloudStorage) -> None:
    lines = [b"%d\n" % number for number in range(2 * MAX_LINES)] + [b"an end without a break"]
    storage.put("bulk", "work/a", b"".join(lines))
    assert [group async for group in files.iterate_lines("a")] == [
        lines[:MAX_LINES],
        lines[MAX_LINES:-1],
        lines[-1:],
    ]


async def test_a_failed_write_leaves_no_file(files: BatchFiles, storage: FakeCloudStorage) -> None:
    async def yield_block_and_fail() -> AsyncIterator[bytes]:
        yield b"x" * 9_000_000
        raise Unavailable("The database is down.")

    with pytest.raises(Unavailable, match="The database is down"):
        await files.write("task/input.jsonl", yield_block_and_fail())
    assert storage.list_names("bulk") == []


@pytest.mark.parametrize(
    ("files", "fault"),
    [(10, STORAGE_THROTTLED), (10, STORAGE_BROKEN), (0.2, STORAGE_HANGS), (10, CUT_CONNECTION)],
    indirect=["files"],
)
async def test_transient_failures_are_retried(
    files: BatchFiles, storage: FakeCloudStorage, fault: Any
) -> None:
    for operation in ("list", "download", "upload", "delete"):
        storage.faults[operation].append(fault)
    await files.write("task/output/a.jsonl", yield_blocks(b'{"a": 1}\n{"b": 2}\n'))
    assert await files.list_names("task/output") == ["task/output/a.jsonl"]
    assert await read_lines(files, "task/output/a.jsonl") == [b'{"a": 1}\n', b'{"b": 2}\n']
    await files.delete("task")
    assert storage.list_names("bulk") == []


async def test_only_the_files_in_a_folder_are_deleted(
    files: BatchFiles, storage: FakeCloudStorage
) -> None:
    for name in ("work/task/a", "work/task/b/c", "work/task-2/a", "other/a"):
        storage.put("bulk", name, "x")
    await files.delete("task")
    assert storage.list_names("bulk") == ["other/a", "work/task-2/a"]
