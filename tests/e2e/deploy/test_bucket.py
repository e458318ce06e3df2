"""A bucket is made versioned and private, or is not used if it belongs to another project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.cloud.errors import CommandFailed
from tests.support.deploying_checkout import get_message
from tests.support.fakes.google_cloud import PROJECT_NUMBER

if TYPE_CHECKING:
    from tests.support.deploying_checkout import Checkout
    from tests.support.fakes.cloud_storage import FakeCloudStorage

SAFE_FIELDS = {
    "versioning": {"enabled": True},
    "iamConfiguration": {
        "uniformBucketLevelAccess": {"enabled": True},
        "publicAccessPrevention": "enforced",
    },
}
"""The fields of a versioned and private bucket, as in Google's API."""


def test_a_new_bucket_is_versioned_and_private(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    cloud = checkout.make_cloud()
    assert cloud.bucket.ensure(PROJECT_NUMBER, "europe-west1")
    assert not cloud.bucket.ensure(PROJECT_NUMBER, "europe-west1")
    assert SAFE_FIELDS.items() <= storage.buckets[cloud.deployment.bucket].items()


@pytest.mark.parametrize(
    "existing",
    [
        {},
        {"versioning": {"enabled": False}},
        {"iamConfiguration": {"publicAccessPrevention": "inherited"}},
        {
            "versioning": {"enabled": True},
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": False},
                "publicAccessPrevention": "enforced",
            },
        },
    ],
)
def test_an_existing_bucket_becomes_versioned_and_private(
    existing: dict[str, Any], checkout: Checkout, storage: FakeCloudStorage
) -> None:
    cloud = checkout.make_cloud()
    bucket = storage.buckets[cloud.deployment.bucket] = {
        "projectNumber": PROJECT_NUMBER,
        "labels": {"mine": "yes"},
        **existing,
    }
    assert not cloud.bucket.ensure(PROJECT_NUMBER, "europe-west1")
    assert bucket == {"projectNumber": PROJECT_NUMBER, "labels": {"mine": "yes"}, **SAFE_FIELDS}


def test_a_correct_bucket_is_not_changed(checkout: Checkout, storage: FakeCloudStorage) -> None:
    cloud = checkout.make_cloud()
    cloud.bucket.ensure(PROJECT_NUMBER, "europe-west1")
    calls_before = storage.calls["bucket"]
    cloud.bucket.ensure(PROJECT_NUMBER, "europe-west1")
    assert storage.calls["bucket"] - calls_before == 1  # the read of its state


@pytest.mark.parametrize(
    "bucket",
    [
        {"projectNumber": "987654321098"},
        {"closed": True},  # the caller may not even read it
    ],
)
def test_a_bucket_of_another_project_is_never_used(
    bucket: dict[str, Any], checkout: Checkout, storage: FakeCloudStorage
) -> None:
    cloud = checkout.make_cloud()
    storage.buckets[cloud.deployment.bucket] = dict(bucket)
    with pytest.raises(CommandFailed) as failure:
        cloud.bucket.ensure(PROJECT_NUMBER, "europe-west1")
    assert f"gs://{cloud.deployment.bucket} belongs to somebody else" in get_message(failure)
    assert "Choose another project" in get_message(failure)
    assert storage.buckets[cloud.deployment.bucket] == bucket
