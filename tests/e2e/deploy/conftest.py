"""Fakes of the Google services that a deployment uses."""

from collections.abc import Iterator

import pytest

from infra.cloud.smoke_key import SECRET_NAME
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
