"""What a deployment is: `deployment.tfvars.json`, Terraform's input, and ours."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from infra.build.discovery import ROOT
from infra.cloud.failures import NotDone
from infra.cloud.settings_check import example, expect_valid_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails

NAME: Final = "deployment.tfvars.json"
PATH: Final = ROOT / NAME
OptionalSecret = Literal[
    "BILLING_TOKEN", "GOOGLE_CLIENT_SECRET", "OPENAI_API_KEY", "READWISE_TOKEN"
]
_OF_THE_GATEWAY: Final = "GOOGLE_CLIENT_ID"
"""The one setting that is none without its secret, which the gateway alone is given."""
# https://cloud.google.com/resource-manager/docs/creating-managing-projects
_PROJECT: Final = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_REGION: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_LOCATION: Final = re.compile(r"[a-z]+(-[a-z]+)?[0-9]+")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


def valid_project(text: str) -> str:
    """Check the id of a project; ValueError says what is wanted."""
    if not _PROJECT.fullmatch(text):
        raise ValueError(
            "a project's id has 6 to 30 lower-case letters, digits and hyphens, such as"
            " my-carrel-123"
        )
    return text


def valid_region(text: str) -> str:
    """Check the name of a region, as Terraform does; ValueError says what is wanted."""
    if not _REGION.fullmatch(text):
        raise ValueError("write a region of Cloud Run, such as europe-west1")
    return text


def valid_location(text: str) -> str:
    """Check the name of a location, as Terraform does; ValueError says what is wanted."""
    if not _LOCATION.fullmatch(text):
        raise ValueError("write a location of Firestore, such as europe-west1 or eur3")
    return text


def valid_email(text: str) -> str:
    """Check an e-mail address; ValueError says what is wanted."""
    if not _EMAIL.fullmatch(text):
        raise ValueError("write an e-mail address, such as you@example.com")
    return text


class Deployment(BaseModel):
    """One deployment. There is no secret in it: those are in Secret Manager alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: Annotated[str, AfterValidator(valid_project)] = Field(
        description="The id of the Google Cloud project."
    )
    region: Annotated[str, AfterValidator(valid_region)] = Field(
        default="europe-west1", description="Where functions run."
    )
    firestore_location: Annotated[str, AfterValidator(valid_location)] = Field(
        default="europe-west1", description="Where the databases are. It can never be changed."
    )
    settings: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the functions."
    )
    secrets: tuple[OptionalSecret, ...] = Field(
        default=(), description="Which of the optional secrets are in use."
    )
    billing_account: str | None = Field(default=None, description="For the budget's alert.")
    monthly_budget: int | None = Field(default=None, ge=1, description="In its currency.")
    alert_email: Annotated[str, AfterValidator(valid_email)] | None = Field(
        default=None, description="Who is told of trouble."
    )
    embedding_dimension: int = Field(
        default=768, ge=1, le=2048, description="The length of vectors: that of the indexes."
    )
    public_url: str | None = Field(default=None, description="An address of one's own.")
    grant_all_users: bool = Field(
        default=True, description="Whether everybody is let through to the gateway by IAM."
    )
    min_instances: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="Instances that are always there, by function's key."
    )
    max_instances: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="Instances there are at most, where it is not as usual."
    )
    protect_data: bool = Field(default=True, description="Whether databases refuse to be deleted.")

    @property
    def bucket(self) -> str:
        """The bucket with Terraform's state, the bundles and the last good release."""
        return f"{self.project}-carrel"

    @property
    def environment(self) -> dict[str, str]:
        """What commands have of the functions' environment: all that follows from it."""
        texts = f"gs://{self.project}-carrel-texts"
        chosen = {"INGEST_BUCKET": f"{texts}/texts", "BULK_BUCKET": f"{texts}/bulk"}
        chosen |= {name: text for name, text in self.settings.items() if name != _OF_THE_GATEWAY}
        dimension = str(self.embedding_dimension)
        given = {"VERTEX_DIMENSION": dimension, "OPENAI_DIMENSION": dimension}
        return {**chosen, **given, "GOOGLE_CLOUD_PROJECT": self.project}

    def to_json(self) -> str:
        """As the file has it."""
        return json.dumps(self.model_dump(exclude_none=True), indent=2) + "\n"


def parsed(text: str | bytes, place: str) -> Deployment:
    """The deployment that a text describes.

    Raises:
        NotDone: It describes none; the message names the field.
    """
    try:
        return Deployment.model_validate_json(text)
    except ValidationError as error:
        said = "; ".join(map(_wrong, error.errors()))
        raise NotDone(f"{place} is no deployment: {said}. Mend it, or delete it.") from error


def checked(text: str | bytes, place: str) -> Deployment:
    """The deployment that a text describes, once its settings are known to hold.

    Raises:
        NotDone: It describes none, or functions could not start with its settings.
    """
    deployment = parsed(text, place)
    expect_valid_settings(deployment.settings, deployment.secrets, deployment.public_url, place)
    return deployment


def read(path: Path = PATH) -> Deployment | None:
    """The deployment of this checkout, if there is one.

    Raises:
        NotDone: The file describes none that could work.
    """
    return checked(path.read_bytes(), path.name) if path.exists() else None


def write(deployment: Deployment, path: Path = PATH) -> None:
    """Keep it; a crash leaves the earlier file or this one whole."""
    fresh = path.with_suffix(".new")
    fresh.write_text(deployment.to_json(), encoding="utf-8")
    fresh.replace(path)


def _wrong(error: ErrorDetails) -> str:
    place = [str(each) for each in error["loc"]]
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(place)}: {message}{example(place[-1]) if place else ''}"
