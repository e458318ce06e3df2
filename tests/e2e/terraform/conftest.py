"""Terraform deployments with a fake provider, each applied once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes.terraform_provider import TerraformProvider
from tests.support.manifests import build_real_manifest, make_manifest
from tests.support.terraform_deployment import Deployment
from tests.support.terraform_state import State

SETTINGS = {"EMBEDDING_PROVIDER": "openai", "TOOL_TIMEOUTS": '{"get_chunk": 95.5}'}
"""The settings of all functions."""
ALL_OPTIONS: dict[str, Any] = {
    "settings": SETTINGS,
    "secrets": ["OPENAI_API_KEY", "READWISE_TOKEN"],
    "billing_account": "012345-6789AB-CDEF01",
    "alert_email": "ada@example.com",
}
"""The variables of Terraform that enable every option."""


@pytest.fixture(scope="session")
def provider() -> Iterator[TerraformProvider]:
    """The fake Google provider."""
    if shutil.which("terraform") is None:
        pytest.skip("terraform is not installed")
    with TerraformProvider() as terraform_provider:
        yield terraform_provider


@pytest.fixture(scope="session")
def initialized_deployment(
    provider: TerraformProvider, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """A deployment that is initialized but not applied. Tests must not change it."""
    return Deployment.prepare(tmp_path_factory.mktemp("terraform"), provider.environment)


@pytest.fixture(scope="session")
def small_deployment(
    initialized_deployment: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """A deployment with one function of each kind and all options. Tests must not change it."""
    deployment = initialized_deployment.copy_to(tmp_path_factory.mktemp("small"))
    deployment.apply(make_manifest(), **ALL_OPTIONS)
    return deployment


@pytest.fixture
def deployment(small_deployment: Deployment, tmp_path: Path) -> Deployment:
    """A copy of the small deployment, which the test may change."""
    return small_deployment.copy_to(tmp_path)


@pytest.fixture(scope="session")
def full_deployment(
    initialized_deployment: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """A deployment of all functions. Tests must not change it."""
    deployment = initialized_deployment.copy_to(tmp_path_factory.mktemp("whole"))
    deployment.apply(build_real_manifest(), **ALL_OPTIONS)
    return deployment


@pytest.fixture(scope="session", params=["small_deployment", "full_deployment"])
def state(request: pytest.FixtureRequest) -> State:
    """The state of the small deployment, and of the full one."""
    manifest = make_manifest() if request.param == "small_deployment" else build_real_manifest()
    deployment: Deployment = request.getfixturevalue(request.param)
    return State.group(manifest["functions"], deployment.read_resources())
