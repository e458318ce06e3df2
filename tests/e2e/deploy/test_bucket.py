"""The bucket is ours, versioned and closed, or it is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.cloud.bucket import make_bucket
from infra.cloud.failures import NotDone
from tests.support.fake_deployment import said
from tests.support.fakes.google_cloud import NUMBER

if TYPE_CHECKING:
    from tests.support.fake_deployment import Site
    from tests.support.fakes.google_cloud import FakeGoogleCloud

SAFE = {
    "versioning": {"enabled": True},
    "iamConfiguration": {
        "uniformBucketLevelAccess": {"enabled": True},
        "publicAccessPrevention": "enforced",
    },
}


def test_a_bucket_is_made_versioned_and_closed_to_the_public(
    site: Site, google: FakeGoogleCloud
) -> None:
    cloud = site.cloud()
    assert make_bucket(cloud.api, cloud.deployment)
    assert not make_bucket(cloud.api, cloud.deployment)
    assert SAFE.items() <= google.buckets[cloud.deployment.bucket].items()


@pytest.mark.parametrize(
    "held",
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
def test_our_own_bucket_is_versioned_and_closed_where_it_was_not(
    held: dict[str, Any], site: Site, google: FakeGoogleCloud
) -> None:
    cloud = site.cloud()
    bucket = google.buckets[cloud.deployment.bucket] = {
        "projectNumber": NUMBER,
        "labels": {"mine": "yes"},
        **held,
    }
    assert not make_bucket(cloud.api, cloud.deployment)
    assert {"projectNumber": NUMBER, "labels": {"mine": "yes"}, **SAFE} == bucket


def test_a_bucket_that_is_as_it_should_be_is_left_alone(
    site: Site, google: FakeGoogleCloud
) -> None:
    cloud = site.cloud()
    make_bucket(cloud.api, cloud.deployment)
    before = google.requests["storage"]
    make_bucket(cloud.api, cloud.deployment)
    assert 1 == google.requests["storage"] - before  # it was looked at


@pytest.mark.parametrize("held", [{"projectNumber": "987654321098"}, {"closed": True}])
def test_a_bucket_of_that_name_that_is_somebody_elses_is_never_used(
    held: dict[str, Any], site: Site, google: FakeGoogleCloud
) -> None:
    cloud = site.cloud()
    google.buckets[cloud.deployment.bucket] = dict(held)
    with pytest.raises(NotDone) as failure:
        make_bucket(cloud.api, cloud.deployment)
    assert f"gs://{cloud.deployment.bucket} belongs to somebody else" in said(failure)
    assert "Next: choose another project" in said(failure)
    assert held == google.buckets[cloud.deployment.bucket]
