"""The smoke test of a deployment passes with a working gateway, and says why others fail."""

import asyncio
import json
import os
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.build.discovery import ROOT, tools
from infra.cli.deploy import smoke as command
from infra.cloud.deployment import Deployment
from infra.cloud.secret_values import SecretValues
from infra.cloud.smoke import run_smoke_test
from infra.cloud.smoke_key import SECRET_NAME
from infra.local.processes import LOOPBACK
from shared.core.caller import Caller, Scope
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.writer.ingestion import Ingestion
from tests.support.access import build_key_maker
from tests.support.fakes.gateway import FakeGateway
from tests.support.fakes.http_server import LoopbackServer
from tests.support.fakes.secret_manager import FakeSecretManager
from tests.support.gateway_process import ACCESS_SECRET, INLINE_MAIN, RunningGateway, run_gateway
from tests.support.knowledge import BAKING, chunk_source, index_all
from tests.support.ports import find_free_port

PROJECT = f"test-smoke-{os.getpid()}"
UNEMBEDDED_PROJECT = f"{PROJECT}-indexed"
"""A project of its own, which has texts."""


class HealthyFunctions(LoopbackServer):
    """A server that answers each health check like a healthy function."""

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_HealthyHandler)


class _HealthyHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def private_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with an empty knowledge base that requires credentials."""
    log = tmp_path_factory.mktemp("smoke") / "log"
    environment = {"GOOGLE_CLOUD_PROJECT": PROJECT, "LOCAL_USER": ""}
    with run_gateway(INLINE_MAIN, environment, log) as gateway_process:
        yield gateway_process


@pytest.fixture(scope="module")
def key() -> str:
    """A read-only key of the private gateway."""
    return make_read_only_key(PROJECT)


def make_read_only_key(project: str) -> str:
    """Store a key that can only read, and return its text."""
    return build_key_maker(project)("smoke", frozenset({Scope.READ}))


def test_a_working_gateway_passes(private_gateway: RunningGateway, key: str) -> None:
    report = asyncio.run(run_smoke_test(private_gateway.url, key))
    assert report.passed
    assert report.lines[0] == "all parts are healthy"
    assert report.lines[1] == "a call without a credential is rejected"
    assert report.lines[2].endswith("tools are listed")
    assert list(report.lines[3:5]) == [
        "get_stats counts 0 passages of 0 sources",
        "search_kb returns 0 passages",
    ]


@pytest.fixture(scope="module")
def unembedded_project() -> str:
    """A project whose texts are indexed but not embedded yet."""
    asyncio.run(_index_texts(UNEMBEDDED_PROJECT))
    return UNEMBEDDED_PROJECT


async def _index_texts(project: str) -> None:
    app = App(Settings(google_cloud_project=project))
    try:
        ctx = app.context(Caller(), Meter())
        await Ingestion(ctx.database).save([chunk_source(BAKING)], ctx.clock())
        await index_all(ctx)
    finally:
        await app.aclose()


@pytest.mark.slow
def test_an_unembedded_base_passes(unembedded_project: str, tmp_path: Path) -> None:
    key = make_read_only_key(unembedded_project)
    environment = {"GOOGLE_CLOUD_PROJECT": unembedded_project}
    with run_gateway(INLINE_MAIN, environment, tmp_path / "log") as gateway_process:
        report = asyncio.run(run_smoke_test(gateway_process.url, key, public=True))
    assert report.passed
    assert report.lines[-1].startswith("search_kb says: Nothing has been embedded yet.")


def test_an_embedding_provider_that_is_down_fails(unembedded_project: str, tmp_path: Path) -> None:
    key = make_read_only_key(unembedded_project)
    environment = {
        "GOOGLE_CLOUD_PROJECT": unembedded_project,
        "EMBEDDING_PROVIDER": "openai",
        "OPENAI_BASE_URL": f"http://{LOOPBACK}:{find_free_port()}/v1",
    }
    with run_gateway(INLINE_MAIN, environment, tmp_path / "log") as gateway_process:
        report = asyncio.run(run_smoke_test(gateway_process.url, key, public=True))
    assert not report.passed
    assert report.lines[1] == "anyone may read without a credential"
    assert "search_kb says: The embedding provider cannot be reached right now." in report.lines[-1]


def test_a_tool_that_is_down_is_named(tmp_path: Path) -> None:
    source = ROOT / "functions" / "gateway" / "main.py"
    with HealthyFunctions() as functions:
        urls = {tool.name: f"http://{LOOPBACK}:{functions.server_port}" for tool in tools()}
        urls["list_clusters"] = f"http://{LOOPBACK}:{find_free_port()}"
        environment = {"GOOGLE_CLOUD_PROJECT": PROJECT, "TOOL_URLS": json.dumps(urls)}
        with run_gateway(source, environment, tmp_path / "log") as gateway_process:
            report = asyncio.run(run_smoke_test(gateway_process.url, "carrel_key"))
    expected = "/health answers 503: list_clusters (unreachable (ConnectError))"
    assert not report.passed
    assert report.lines == [expected]


@pytest.mark.slow
def test_an_incomplete_answer_fails(tmp_path: Path) -> None:
    key = make_read_only_key(PROJECT)
    source = ROOT / "tests" / "support" / "incomplete_gateway.py"
    environment = {"GOOGLE_CLOUD_PROJECT": PROJECT}
    with run_gateway(source, environment, tmp_path / "log") as gateway_process:
        report = asyncio.run(run_smoke_test(gateway_process.url, key, public=True))
    assert not report.passed
    assert "get_stats" in report.lines[-1]


def test_an_invalid_key_fails_with_the_gateways_error(private_gateway: RunningGateway) -> None:
    report = asyncio.run(run_smoke_test(private_gateway.endpoint, "carrel_no-key"))
    assert not report.passed
    assert f"{private_gateway.endpoint} did not answer as expected (HTTP 401)" in report.lines[-1]


def test_a_gateway_that_does_not_answer_fails_the_test() -> None:
    url = f"http://{LOOPBACK}:{find_free_port()}"
    report = asyncio.run(run_smoke_test(url, "carrel_key"))
    assert not report.passed
    assert f"{url}/mcp did not answer as expected" in report.lines[-1]


@pytest.mark.parametrize(
    ("fault", "public", "expected"),
    [
        ({"health": 503}, False, "/health answers 503: search_kb (it does not answer)"),
        ({"health": 403}, False, "if your organization forbids allUsers, see docs/deploy.md"),
        ({"refusal": 200}, True, "/mcp did not answer as expected"),  # anyone may read, but what?
        ({"refusal": 200}, False, "a call without a credential gets status 200 instead of 401"),
        ({"refusal": 500}, True, "a call without a credential gets status 500 instead of 401"),
        (  # a client would sign in at the other address
            {"resource": "https://old.example.com/mcp"},
            False,
            "publishes https://old.example.com/mcp, not http://127.0.0.1",
        ),
        ({"metadata": b"<html>"}, False, "answers 200 without metadata"),
        ({"metadata": b"[]"}, False, "answers 200 without metadata"),
        ({"metadata": b"{}"}, False, "answers 200 without metadata"),
    ],
)
def test_a_faulty_gateway_fails_with_its_reason(
    fault: dict[str, Any], *, public: bool, expected: str
) -> None:
    with FakeGateway() as gateway:
        vars(gateway).update(fault)
        report = asyncio.run(run_smoke_test(gateway.url, "carrel_key", public=public))
    assert not report.passed
    assert expected in report.lines[-1]


def test_a_key_is_never_sent_unencrypted() -> None:
    with pytest.raises(click.ClickException, match="A key is only sent over https"):
        asyncio.run(run_smoke_test("http://carrel.example.com", "carrel_key"))


def test_the_command_prints_that_the_test_passed(private_gateway: RunningGateway, key: str) -> None:
    result = CliRunner().invoke(command, [private_gateway.url], env={"CARREL_KEY": key})
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "The smoke test passed."
    assert key not in result.output


def test_the_command_prints_that_the_test_failed(private_gateway: RunningGateway) -> None:
    result = CliRunner().invoke(command, [private_gateway.url], env={"CARREL_KEY": "carrel_no-key"})
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "The smoke test failed."


def test_the_command_without_a_key_says_how_to_create_one(private_gateway: RunningGateway) -> None:
    result = CliRunner().invoke(command, [private_gateway.url], env={"CARREL_KEY": ""})
    assert result.exit_code == 1
    assert "carrel --cloud keys create" in result.output


def test_without_an_address_the_deployment_is_tested(
    private_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smoke test's own key is created if it is missing."""
    deployment = Deployment(project=PROJECT, public_url=private_gateway.url)
    monkeypatch.setattr("infra.cli.deploy.load_deployment", lambda: deployment)
    monkeypatch.setattr("infra.cli.deploy._use_project", lambda _: None)  # it leaves the emulator
    monkeypatch.setattr("infra.cloud.environment.load_deployment", lambda _: deployment)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", PROJECT)
    with FakeSecretManager(PROJECT, "ACCESS_SECRETS", SECRET_NAME) as google:
        google.secrets["ACCESS_SECRETS"].append(json.dumps([ACCESS_SECRET]))
        session = AuthorizedSession(AnonymousCredentials())
        connect = partial(SecretValues, session=session, address=google.address)
        monkeypatch.setattr("infra.cloud.secret_values.SecretValues", connect)
        result = CliRunner().invoke(command, env={"CARREL_KEY": ""})
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == "The smoke test passed."
    [key] = google.secrets[SECRET_NAME]
    assert key not in result.output


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, False), ({"PUBLIC_ACCESS": "false"}, False), ({"PUBLIC_ACCESS": "true"}, True)],
)
def test_only_a_public_deployment_may_answer_anyone(
    settings: dict[str, str], *, expected: bool
) -> None:
    assert Deployment(project=PROJECT, settings=settings).is_public == expected
