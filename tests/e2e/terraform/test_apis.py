"""Terraform and `carrel deploy` enable the same APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.cloud.services import SERVICES

if TYPE_CHECKING:
    from tests.support.terraform_state import State

pytestmark = pytest.mark.slow


def test_terraform_enables_the_apis_that_carrel_deploy_enables(state: State) -> None:
    services = {
        resource.values["service"] for resource in state.resources["google_project_service"]
    }
    # Terraform itself never calls the billing API.
    assert services == set(SERVICES) - {"cloudbilling.googleapis.com"}
