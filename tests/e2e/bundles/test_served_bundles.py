"""Deployed functions run from their bundles with only their requirements installed."""

import json
import os
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import httpx2
import pytest

from functions.tools.knowledge.get_chunk.tool import TOOL as GET_CHUNK
from functions.tools.knowledge.search_kb.tool import TOOL as SEARCH_KB
from infra.build.bundles import stage
from infra.file_lock import hold_lock
from infra.local.processes import LOOPBACK, Program, ServerProcess, run, serve, wait_until_serving
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.runtime.context import Context
from shared.writer.ingestion import Ingestion
from tests.support.cloud_run.bundles import LAPTOP
from tests.support.cloud_run.cloud import GATEWAY
from tests.support.cloud_run.environments import install_environment
from tests.support.fakes.openai import MODEL, FakeOpenAI
from tests.support.fakes.otlp import FakeCollector
from tests.support.fakes.vertex import FakeVertex
from tests.support.gateway_process import ACCESS_SECRET
from tests.support.google_credentials import write_credentials_file
from tests.support.knowledge import BAKING, SAILING, chunk_source, index_all
from tests.support.ports import find_free_port
from tests.support.tool_calls import make_call_request

pytestmark = pytest.mark.slow

STARTED_NAMES = (GATEWAY, "get_chunk", "cluster")
"""The functions whose requirements pip installs."""
EMBEDDING_NAMES = ("search_kb", "embed")
KEY: Final = "sk-of-tests"
DIMENSION: Final = "64"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Staged bundles of the cloud, which do not contain the local embedding provider."""
    target = tmp_path_factory.mktemp("staged")
    stage(target, only=[*STARTED_NAMES, *EMBEDDING_NAMES, "cards"])
    return target


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """A fake of Vertex AI."""
    with FakeVertex() as server:
        yield server


@pytest.fixture
def openai() -> Iterator[FakeOpenAI]:
    """A fake of an OpenAI endpoint with one key."""
    with FakeOpenAI() as server:
        server.keys = {KEY}
        yield server


def find_manifest_entry(staged: Path, name: str) -> dict[str, Any]:
    """Return the manifest entry of a function."""
    functions = json.loads((staged / "manifest.json").read_bytes())["functions"].values()
    [entry] = [function for function in functions if function["name"] == name]
    return dict(entry)


def unpack(staged: Path, entry: dict[str, Any], parent: Path) -> Path:
    """Unpack the archive of a function; return its folder."""
    folder = parent / str(entry["name"])
    with ZipFile(staged / entry["bundle"]) as packed:
        packed.extractall(folder)
    return folder


def run_pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python's own pip."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(requirements: Path, parent: Path) -> Path:
    """Install requirements into a new environment, and return its Python.

    Skip the test if pip cannot download one small package, because then it reaches no index.
    """
    venv.create(parent, with_pip=True)
    python = parent / "bin" / "python"
    lines = requirements.read_text("utf-8").replace("\\\n", " ").splitlines()
    small_file = parent / "small.txt"
    small_file.write_text(next(line for line in lines if line.startswith("idna==")))
    download = ("download", "--no-deps", "-d", str(parent), "-r", str(small_file))
    if run_pip(python, *download).returncode:
        pytest.skip("pip reaches no package index here")
    process = run_pip(
        python, "install", "--no-compile", "--require-hashes", "-r", str(requirements)
    )
    assert process.returncode == 0, process.stderr
    return python


@contextmanager
def serve_as_in_the_cloud(program: Program, log: Path) -> Iterator[str]:
    """Serve a function with the framework's own server, and yield its URL."""
    port = str(find_free_port())
    command = [str(program.python), "-m", "functions_framework", "--target=handle"]
    with ExitStack() as stack:
        process = run(
            stack,
            [*command, f"--source={program.source}", f"--host={LOOPBACK}", f"--port={port}"],
            environment=program.environment,
            folder=program.folder,
            sockets=[],
            log=log,
        )
        url = f"http://{LOOPBACK}:{port}"
        wait_until_serving(ServerProcess(url, process), program)
        yield url


@pytest.mark.parametrize("name", STARTED_NAMES)
def test_an_archive_runs_with_only_its_requirements(
    name: str, staged: Path, tmp_path: Path
) -> None:
    folder = unpack(staged, find_manifest_entry(staged, name), tmp_path)
    environment = {
        "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"],
        "ACCESS_SECRETS": json.dumps([ACCESS_SECRET]),
    }
    python = install(folder / "requirements.txt", tmp_path / "environment")
    program = Program(folder / "main.py", python, environment, folder)
    with serve_as_in_the_cloud(program, tmp_path / "log") as url:
        path = "/health" if name == GATEWAY else "/"
        response = httpx2.get(url + path, headers={"host": "localhost:8080"}, timeout=30)
    # The gateway's tools have no URLs here.
    assert response.json()["status"] == ("degraded" if name == GATEWAY else "ok")


@contextmanager
def serve_function(
    staged: Path, name: str, settings: dict[str, str], parent: Path
) -> Iterator[str]:
    """Serve a function with its own settings and secrets, and yield its URL."""
    entry = find_manifest_entry(staged, name)
    folder = unpack(staged, entry, parent)
    LAPTOP.mkdir(parents=True, exist_ok=True)
    with hold_lock(LAPTOP / "lock"):
        python = install_environment(
            (folder / "requirements.txt").read_bytes(), LAPTOP / "environments"
        )
    names = {*entry["settings"], *entry["secrets"]}
    variables = {
        **{name: value for name, value in settings.items() if name in names},
        "GOOGLE_CLOUD_PROJECT": settings["GOOGLE_CLOUD_PROJECT"],
        "GOOGLE_APPLICATION_CREDENTIALS": str(write_credentials_file(parent)),
        "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"],
    }
    program = Program(folder / "main.py", python, variables, folder)
    with serve(program, log=parent / "log") as server:
        yield server.url


async def assert_found_by_meaning(
    ctx: Context, staged: Path, settings: dict[str, str], parent: Path
) -> None:
    """Assert that the deployed job embeds and the deployed tool finds by vector."""
    settings |= {"GOOGLE_CLOUD_PROJECT": ctx.settings.google_cloud_project}
    books = [chunk_source(BAKING), chunk_source(SAILING)]
    await Ingestion(ctx.database).save(books, utc_now())
    chunks = [chunk for book in books for chunk in book.chunks]
    async with httpx2.AsyncClient(timeout=60) as client:
        with serve_function(staged, "embed", settings, parent) as url:
            report = (await client.post(url)).json()
        assert report["state"] == "finished"
        assert report["failures"] == []
        assert report["counts"]["embedded"] == len(chunks)

        await index_all(ctx)
        arguments = {"query": chunks[-1].embedding_text, "mode": "semantic", "limit": 1}
        call_request = make_call_request(SEARCH_KB, Caller.of("reader"), arguments)
        text = call_request.model_dump_json()
        headers = {"content-type": "application/json"}
        with serve_function(staged, "search_kb", settings, parent) as url:
            call_answer = (await client.post(url, content=text, headers=headers)).json()
    [hit] = call_answer["result"]["results"]
    assert hit["chunk_id"] == chunks[-1].chunk_id
    assert hit["found_by"] == ["semantic"]


async def test_deployed_functions_search_with_vertex_ai(
    ctx: Context, staged: Path, vertex: FakeVertex, tmp_path: Path
) -> None:
    settings = {
        "EMBEDDING_PROVIDER": "vertex",
        "VERTEX_BASE_URL": vertex.base_url,
        "EMBEDDING_DIMENSION": DIMENSION,
    }
    await assert_found_by_meaning(ctx, staged, settings, tmp_path)
    task_types = [call.config["taskType"] for call in vertex.calls]
    assert task_types == ["RETRIEVAL_DOCUMENT"] * 5 + ["RETRIEVAL_QUERY"]


async def test_deployed_functions_search_with_an_openai_endpoint(
    ctx: Context, staged: Path, openai: FakeOpenAI, tmp_path: Path
) -> None:
    settings = {
        "EMBEDDING_PROVIDER": "openai",
        "OPENAI_BASE_URL": openai.base_url,
        "EMBEDDING_MODEL": MODEL,
        "EMBEDDING_DIMENSION": DIMENSION,
        "OPENAI_API_KEY": KEY,
    }
    await assert_found_by_meaning(ctx, staged, settings, tmp_path)
    assert openai.text_counts == [5, 1]  # all passages at once, then the query


async def test_a_deployed_function_exports_its_spans_before_it_answers(
    ctx: Context, tmp_path: Path
) -> None:
    stage(tmp_path / "staged", only=["get_chunk"], telemetry=True)
    call_request = make_call_request(GET_CHUNK, Caller.of("reader"), {"chunk_id": "none"})
    with FakeCollector() as collector:
        settings = {
            "GOOGLE_CLOUD_PROJECT": ctx.settings.google_cloud_project,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=k-123",
        }
        with serve_function(tmp_path / "staged", "get_chunk", settings, tmp_path) as url:
            headers = {"content-type": "application/json"}
            httpx2.post(url, content=call_request.model_dump_json(), headers=headers, timeout=60)
            names = [span.name for span in collector.spans]
    assert {"get chunks", "get_chunk"} <= {*names}
    assert collector.headers[-1]["api-key"] == "k-123"


@pytest.mark.parametrize(
    ("name", "providers"),
    [
        ("search_kb", {"vertex_embedding.py", "openai_embedding.py"}),
        ("embed", {"vertex_embedding.py", "openai_embedding.py"}),
        ("cards", {"vertex_generation.py", "openai_generation.py"}),
        ("get_chunk", set()),
        (GATEWAY, set()),
    ],
)
def test_a_bundle_has_only_the_providers_it_needs(
    name: str, providers: set[str], staged: Path
) -> None:
    with ZipFile(staged / find_manifest_entry(staged, name)["bundle"]) as packed:
        file_names = {path.rpartition("/")[2] for path in packed.namelist()}
    all_providers = {
        f"{provider}_{capability}.py"
        for provider in ("vertex", "openai", "local")
        for capability in ("embedding", "generation")
    }
    assert file_names & all_providers == providers
