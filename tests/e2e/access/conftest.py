"""Fixtures of the tests of access: gateways, and keys for them.

Some gateways serve all tools. Others serve only a notebook, whose few tools read and write notes.
"""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.access import (
    CLOUD_SETTINGS,
    NOTEBOOK,
    UNLIMITED,
    WITH_FAKE_GOOGLE,
    Carrel,
    MakeKey,
    build_key_maker,
)
from tests.support.fakes.google import CLIENT_ID, CLIENT_SECRET, FakeGoogle
from tests.support.gateway_process import INLINE_MAIN, RunningGateway, run_gateway
from tests.support.google_sign_in import ADA


@pytest.fixture(scope="session")
def project() -> str:
    """The Google Cloud project that the gateways of these tests share."""
    return f"access-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file to which these gateways log."""
    return tmp_path_factory.mktemp("access") / "gateway.log"


@pytest.fixture(scope="session")
def gateway(project: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway of the notebook that requires a credential."""
    with run_gateway(NOTEBOOK, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def open_gateway(project: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway of the notebook that lets anonymous callers use public tools."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS, "PUBLIC_ACCESS": "true"}
    with run_gateway(NOTEBOOK, environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def laptop(project: str, log: Path) -> Iterator[RunningGateway]:
    """A local gateway of the notebook, which requires no credential."""
    with run_gateway(NOTEBOOK, {"GOOGLE_CLOUD_PROJECT": project}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def carrel(project: str, log: Path) -> Iterator[Carrel]:
    """All tools behind a gateway that requires a credential for everything but public tools."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS, **UNLIMITED}
    with run_gateway(INLINE_MAIN, environment, log) as gateway, httpx2.Client(timeout=60) as http:
        yield Carrel(gateway.endpoint, http)


@pytest.fixture(scope="session")
def url(project: str, log: Path) -> Iterator[str]:
    """The URL of a gateway with all tools, which requires a credential for each of them."""
    with run_gateway(
        INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS}, log
    ) as gateway:
        yield gateway.url


@pytest.fixture
def google_url(project: str, log: Path) -> Iterator[str]:
    """The URL of a gateway with all tools, where Ada signs in with Google."""
    with FakeGoogle() as google:
        environment = {
            "GOOGLE_CLOUD_PROJECT": project,
            **CLOUD_SETTINGS,
            "GOOGLE_CLIENT_ID": CLIENT_ID,
            "GOOGLE_CLIENT_SECRET": CLIENT_SECRET,
            "FAKE_GOOGLE": google.issuer,
            "ALLOWED_EMAILS": json.dumps([ADA]),
        }
        with run_gateway(WITH_FAKE_GOOGLE, environment, log) as gateway:
            yield gateway.url


@pytest.fixture(scope="session")
def make_key(project: str) -> MakeKey:
    """A function that makes keys for the gateways of `project`, and gives each user `FUNDS`."""
    return build_key_maker(project)
