"""A deployment, as the doctor looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from infra.cloud.failures import NotDone
from infra.cloud.services import project_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.cloud.bucket import Bucket
    from infra.cloud.deployment import Deployment
    from infra.cloud.google_api import GoogleApi
    from shared.core.settings import Settings


@dataclass(frozen=True)
class Deployed:
    """What is looked at, and through what; each part is opened by the first check that needs it.

    Attributes:
        deployment: What is said to be deployed.
        settings: The functions' settings.
        sign_in: Opens Google's APIs in the name of whoever is at the terminal.
        open_bucket: Opens the deployment's bucket.
        indexes: For each database, the file with its indexes.
        address: The gateway's, where it is not what follows from the deployment.
    """

    deployment: Deployment
    settings: Settings
    sign_in: Callable[[], GoogleApi]
    open_bucket: Callable[[], Bucket]
    indexes: dict[str, Path]
    address: str = ""

    @cached_property
    def api(self) -> GoogleApi:
        """Google's APIs."""
        return self.sign_in()

    @cached_property
    def number(self) -> str:
        """The project's number."""
        return project_number(self.api, self.deployment.project)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What passed its smoke test last.

        Raises:
            NotDone: Nothing did yet.
        """
        good = self.open_bucket().last_good()
        if good is None:
            raise NotDone("Nothing has passed its smoke test yet. Next: carrel deploy")
        return good[0]

    @cached_property
    def functions(self) -> list[dict[str, Any]]:
        """Carrel's functions, as the Cloud Functions API describes them."""
        found = self.api.all("cloudfunctions", f"v2/{self.place}/functions", "functions")
        return [each for each in found if name_of(each).startswith("carrel-")]

    @cached_property
    def schedules(self) -> dict[str, dict[str, Any]]:
        """Jobs of Cloud Scheduler, by name, as its API describes them."""
        found = self.api.all("cloudscheduler", f"v1/{self.place}/jobs", "jobs")
        return {name_of(each): each for each in found}

    @property
    def place(self) -> str:
        """The project and the region, as APIs name them."""
        return f"projects/{self.deployment.project}/locations/{self.deployment.region}"

    @property
    def url(self) -> str:
        """The gateway's public address."""
        given = self.address or self.deployment.public_url
        return given or f"https://carrel-gateway-{self.number}.{self.deployment.region}.run.app"

    def job_names(self) -> list[str]:
        """The jobs that run by schedule."""
        functions = self.manifest["functions"].values()
        return [each["name"] for each in functions if each.get("schedule")]


def schedule_of(job: str) -> str:
    """What Cloud Scheduler calls a job."""
    return f"carrel-{job.replace('_', '-')}"


def name_of(resource: dict[str, Any]) -> str:
    """The last part of a resource's name."""
    return str(resource["name"]).rpartition("/")[2]
