"""Cloud Scheduler calls each job that has a schedule, with the right account and deadline."""

from __future__ import annotations

import pytest

from tests.e2e.terraform.test_functions import make_url
from tests.support.terraform_state import State, format_member

pytestmark = pytest.mark.slow


def test_only_jobs_with_a_schedule_have_one(state: State) -> None:
    schedules = {
        resource.key: resource.values for resource in state.resources["google_cloud_scheduler_job"]
    }
    assert schedules.keys() == {
        key for key, function in state.functions.items() if function["schedule"]
    }
    for key, schedule in schedules.items():
        function = state.functions[str(key)]
        assert schedule["name"] == f"carrel-{key}"
        assert schedule["schedule"] == function["schedule"]
        assert schedule["time_zone"] == "Etc/UTC"
        assert schedule["attempt_deadline"] == f"{function['timeout_seconds']}s"


def test_the_scheduler_waits_as_long_as_the_function(state: State) -> None:
    functions = state.get_functions()
    for resource in state.resources["google_cloud_scheduler_job"]:
        seconds = functions[str(resource.key)]["service_config"]["timeout_seconds"]
        assert resource.values["attempt_deadline"] == f"{seconds}s"
        assert 15 <= seconds <= 1800  # the limits of Cloud Scheduler


def test_a_schedule_authenticates_to_its_function(state: State) -> None:
    for resource in state.resources["google_cloud_scheduler_job"]:
        target = resource.block["http_target"]
        assert target["oidc_token"] == {
            "service_account_email": format_member("scheduler").removeprefix("serviceAccount:"),
            "audience": make_url(str(resource.key)),
        }
        assert target["uri"] == f"{make_url(str(resource.key))}/"
        assert target["http_method"] == "POST"
