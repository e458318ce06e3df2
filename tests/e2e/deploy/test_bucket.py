"""A bucket is made versioned and private, or is not used if it belongs to another project."""

from pathlib import Path
from typing import Any

import click
import pytest

from infra.cloud.bucket import Bucket
from infra.cloud.deployment import Deployment
from infra.cloud.environment import find_gateway_url
from tests.support.fakes.cloud_storage import PROJECT_NUMBER, FakeCloudStorage

SAFE_FIELDS = {
    "versioning": {"enabled": True},
    "iamConfiguration": {
        "uniformBucketLevelAccess": {"enabled": True},
        "publicAccessPrevention": "enforced",
    },
}
"""The fields of a versioned and private bucket, as in Google's API."""


def test_a_new_bucket_is_versioned_and_private(project: str, storage: FakeCloudStorage) -> None:
    bucket = Bucket(project)
    bucket.ensure("europe-west1")
    bucket.ensure("europe-west1")
    assert storage.buckets.keys() == {f"{project}-carrel"}
    resource = storage.buckets[bucket.name]
    assert SAFE_FIELDS.items() <= resource.items()
    assert resource["location"] == "europe-west1"


@pytest.mark.parametrize(
    "existing",
    [
        {},
        {"versioning": {"enabled": False}},
        {
            "versioning": {"enabled": True},
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": False},
                "publicAccessPrevention": "inherited",
            },
        },
    ],
)
def test_an_existing_bucket_becomes_versioned_and_private(
    existing: dict[str, Any], project: str, storage: FakeCloudStorage
) -> None:
    name = f"{project}-carrel"
    storage.buckets[name] = {
        "projectNumber": PROJECT_NUMBER,
        "labels": {"mine": "yes"},
        **existing,
    }
    Bucket(project).ensure("europe-west1")
    assert storage.buckets[name] == {
        "projectNumber": PROJECT_NUMBER,
        "labels": {"mine": "yes"},
        **SAFE_FIELDS,
    }


def test_a_bucket_of_another_project_is_never_used(project: str, storage: FakeCloudStorage) -> None:
    bucket = Bucket(project)
    foreign_bucket = {"projectNumber": "987654321098"}
    storage.buckets[bucket.name] = dict(foreign_bucket)
    with pytest.raises(click.ClickException) as failure:
        bucket.ensure("europe-west1")
    assert f"gs://{bucket.name} belongs to somebody else" in str(failure.value)
    assert "Choose another project" in str(failure.value)
    assert storage.buckets[bucket.name] == foreign_bucket


def test_another_checkout_finds_the_deployment(
    project: str, storage: FakeCloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)
    bucket = Bucket(project)
    storage.buckets[bucket.name] = {"projectNumber": PROJECT_NUMBER}
    with pytest.raises(click.ClickException, match="no release has passed its smoke test"):
        find_gateway_url(tmp_path / "none.json")

    file = tmp_path / "deployment.tfvars.json"
    settings = {"EMBEDDING_PROVIDER": "vertex"}
    file.write_text(
        Deployment(project=project, region="us-east1", settings=settings).model_dump_json()
    )
    bucket.save_deployment(file.read_bytes())
    expected = f"https://carrel-gateway-{PROJECT_NUMBER}.us-east1.run.app"
    assert find_gateway_url(tmp_path / "none.json") == expected
