"""Fixtures of the tests of deployment: a fake Google Cloud and a checkout for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.cloud.smoke_key import SECRET_NAME
from tests.support.deploying_checkout import make_checkout
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.google_cloud import FakeGoogleCloud, Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.deploying_checkout import Checkout


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """Cloud Storage without a bucket, to which Google's client connects."""
    with FakeCloudStorage() as fake_storage:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", fake_storage.base_url)
        monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        yield fake_storage


@pytest.fixture
def google(storage: FakeCloudStorage, project: str) -> Iterator[FakeGoogleCloud]:  # noqa: ARG001 - it is one of Google's
    """Google's APIs with one new project, in which Terraform has created the secrets."""
    with FakeGoogleCloud() as fake_google:
        names = ("ACCESS_SECRETS", "READWISE_TOKEN", SECRET_NAME)
        fake_google.projects[project] = Project(secrets={name: [] for name in names})
        yield fake_google


@pytest.fixture
def checkout(tmp_path: Path, project: str, google: FakeGoogleCloud) -> Checkout:
    """A checkout without a deployment."""
    return make_checkout(tmp_path, project, google.address)
