"""The deployment in the cloud that the doctor's checks inspect.

A release is a set of functions that was deployed together. Its manifest describes these functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from infra.cloud.errors import CommandFailed
from infra.cloud.services import look_up_project_number
from shared.core.installation import carrel_deploy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.cloud.bucket import Bucket
    from infra.cloud.deployment import Deployment
    from infra.cloud.google_api import GoogleApi
    from shared.core.settings import Settings


@dataclass(frozen=True)
class LiveDeployment:
    """A deployment in the cloud, with connections that are opened when they are first used.

    Attributes:
        deployment: The description of the deployment.
        settings: The functions' settings.
        sign_in: Connects to Google's APIs as the person at the terminal.
        open_bucket: Connects to the deployment's bucket.
        indexes: The path of the index file, by database name.
        address: The gateway's URL, or an empty string to derive it from the deployment.
    """

    deployment: Deployment
    settings: Settings
    sign_in: Callable[[], GoogleApi]
    open_bucket: Callable[[], Bucket]
    indexes: dict[str, Path]
    address: str = ""

    @cached_property
    def api(self) -> GoogleApi:
        """The client for Google's APIs."""
        return self.sign_in()

    @cached_property
    def number(self) -> str:
        """The project's number."""
        return look_up_project_number(self.api, self.deployment.project)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the last release that passed its smoke test.

        Raises:
            CommandFailed: No release has passed yet.
        """
        release = self.open_bucket().load_last_good_release()
        if release is None:
            raise CommandFailed(
                f"No release has passed its smoke test yet. Next: {carrel_deploy()}"
            )
        return release.manifest

    @cached_property
    def functions(self) -> list[dict[str, Any]]:
        """Carrel's functions, in the format of the Cloud Functions API."""
        functions = self.api.get_all("cloudfunctions", f"v2/{self.location}/functions", "functions")
        return [
            function for function in functions if get_short_name(function).startswith("carrel-")
        ]

    @cached_property
    def schedules(self) -> dict[str, dict[str, Any]]:
        """The jobs of Cloud Scheduler by name, in the format of its API."""
        schedules = self.api.get_all("cloudscheduler", f"v1/{self.location}/jobs", "jobs")
        return {get_short_name(schedule): schedule for schedule in schedules}

    @property
    def location(self) -> str:
        """The project and the region as a resource path of Google's APIs."""
        return f"projects/{self.deployment.project}/locations/{self.deployment.region}"

    @property
    def url(self) -> str:
        """The gateway's public URL."""
        configured = self.address or self.deployment.public_url
        return (
            configured or f"https://carrel-gateway-{self.number}.{self.deployment.region}.run.app"
        )

    def list_scheduled_jobs(self) -> list[str]:
        """List the names of the jobs that have a schedule."""
        functions = self.manifest["functions"].values()
        return [function["name"] for function in functions if function.get("schedule")]


def get_schedule_name(job: str) -> str:
    """Return the name of a job's schedule in Cloud Scheduler."""
    return f"carrel-{job.replace('_', '-')}"


def get_short_name(resource: dict[str, Any]) -> str:
    """Return the last part of a resource's name."""
    return str(resource["name"]).rpartition("/")[2]
