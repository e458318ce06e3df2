"""Fixtures of the tests of deployment: fakes of Google's services and a checkout for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cloud.smoke_key import SECRET_NAME
from tests.support.deploying_checkout import Checkout, make_checkout
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.secret_manager import FakeSecretManager


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """Cloud Storage without a bucket, to which Google's client connects."""
    with FakeCloudStorage() as fake_storage:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", fake_storage.base_url)
        monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        yield fake_storage


@pytest.fixture
def google(project: str) -> Iterator[FakeSecretManager]:
    """Secret Manager with one project, in which Terraform has created the secrets."""
    with FakeSecretManager(project, "ACCESS_SECRETS", "READWISE_TOKEN", SECRET_NAME) as fake_google:
        yield fake_google


@pytest.fixture
def checkout(
    tmp_path: Path,
    project: str,
    google: FakeSecretManager,
    storage: FakeCloudStorage,  # noqa: ARG001 - Google's client connects to it
) -> Checkout:
    """A checkout without a deployment."""
    return make_checkout(tmp_path, project, google.address)
