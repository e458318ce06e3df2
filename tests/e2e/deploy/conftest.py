"""A Google Cloud of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.cloud.smoke_key import SECRET
from tests.support.fake_deployment import made
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.google_cloud import FakeGoogleCloud, Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.fake_deployment import Site


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """Cloud Storage without a bucket; Google's client is led there."""
    with FakeCloudStorage() as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.base_url)
        monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        yield served


@pytest.fixture
def google(storage: FakeCloudStorage, project: str) -> Iterator[FakeGoogleCloud]:  # noqa: ARG001 - it is one of Google's
    """Google's APIs, with one new project; Terraform's part, which makes secrets, is done."""
    with FakeGoogleCloud() as served:
        names = ("ACCESS_SECRETS", "READWISE_TOKEN", SECRET)
        served.projects[project] = Project(secrets={name: [] for name in names})
        yield served


@pytest.fixture
def site(tmp_path: Path, project: str, google: FakeGoogleCloud) -> Site:
    """A checkout that was never deployed."""
    return made(tmp_path, project, google.address)
