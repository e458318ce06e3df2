"""Deployments for tests: applied once, to a cloud that is not there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fakes.terraform_provider import TerraformProvider
from tests.support.manifests import manifest, real_manifest
from tests.support.terraform_deployment import Deployment
from tests.support.terraform_state import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {"EMBEDDING_PROVIDER": "openai", "TOOL_TIMEOUTS": '{"get_chunk": 95.5}'}
EVERYTHING: dict[str, Any] = {
    "settings": SETTINGS,
    "secrets": ["OPENAI_API_KEY", "READWISE_TOKEN"],
    "billing_account": "012345-6789AB-CDEF01",
    "alert_email": "ada@example.com",
}
"""Variables that leave nothing out."""


@pytest.fixture(scope="session")
def provider() -> Iterator[TerraformProvider]:
    """The stand-in for the Google provider."""
    if shutil.which("terraform") is None:
        pytest.skip("terraform is not installed")
    with TerraformProvider() as running:
        yield running


@pytest.fixture(scope="session")
def fresh(provider: TerraformProvider, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Our files, initialised, and nothing made; not for tests to change."""
    return Deployment.prepared(tmp_path_factory.mktemp("terraform"), provider.environment)


@pytest.fixture(scope="session")
def small(fresh: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """One function of each sort, with everything that there is; not for tests to change."""
    deployment = fresh.copied(tmp_path_factory.mktemp("small"))
    deployment.apply(manifest(), **EVERYTHING)
    return deployment


@pytest.fixture
def deployment(small: Deployment, tmp_path: Path) -> Deployment:
    """The same, for one test, which may change it."""
    return small.copied(tmp_path)


@pytest.fixture(scope="session")
def whole(fresh: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """All functions that there are; not for tests to change."""
    deployment = fresh.copied(tmp_path_factory.mktemp("whole"))
    deployment.apply(real_manifest(), **EVERYTHING)
    return deployment


@pytest.fixture(scope="session", params=["small", "whole"])
def state(request: pytest.FixtureRequest) -> State:
    """What was made of a small manifest, and of the real one."""
    functions = manifest() if request.param == "small" else real_manifest()
    return State.of(functions["functions"], request.getfixturevalue(request.param).resources())
