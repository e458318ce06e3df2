"""Reads and validates `deployment.tfvars.json`, which describes a deployment to Terraform, too."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from infra.build.discovery import ROOT
from infra.cloud.errors import CommandFailed
from infra.cloud.settings_check import format_example, require_valid_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails

FILE_NAME: Final = "deployment.tfvars.json"
FILE: Final = ROOT / FILE_NAME
OptionalSecret = Literal[
    "BILLING_TOKEN",
    "GOOGLE_CLIENT_SECRET",
    "OPENAI_API_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "READWISE_TOKEN",
]
"""The settings that a deployment may store in Secret Manager, in addition to ACCESS_SECRETS."""
_GATEWAY_ONLY_SETTING: Final = "GOOGLE_CLIENT_ID"
"""A setting that is valid only together with its secret, which only the gateway has."""
# https://cloud.google.com/resource-manager/docs/creating-managing-projects
_PROJECT: Final = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_REGION: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_LOCATION: Final = re.compile(r"[a-z]+(-[a-z]+)?[0-9]+")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


def validate_project(text: str) -> str:
    """Return a valid project id, or raise a ValueError that says what to write."""
    if not _PROJECT.fullmatch(text):
        raise ValueError(
            "a project's id has 6 to 30 lower-case letters, digits and hyphens, such as"
            " my-carrel-123"
        )
    return text


def validate_region(text: str) -> str:
    """Return a valid region, or raise a ValueError that says what to write.

    Terraform applies the same check.
    """
    if not _REGION.fullmatch(text):
        raise ValueError("write a region of Cloud Run, such as europe-west1")
    return text


def validate_location(text: str) -> str:
    """Return a valid location, or raise a ValueError that says what to write.

    Terraform applies the same check.
    """
    if not _LOCATION.fullmatch(text):
        raise ValueError("write a location of Firestore, such as europe-west1 or eur3")
    return text


def validate_email(text: str) -> str:
    """Return a valid e-mail address, or raise a ValueError that says what to write."""
    if not _EMAIL.fullmatch(text):
        raise ValueError("write an e-mail address, such as you@example.com")
    return text


class Deployment(BaseModel):
    """The description of a deployment. It contains no secrets: they are only in Secret Manager."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: Annotated[str, AfterValidator(validate_project)] = Field(
        description="Id of the Google Cloud project."
    )
    region: Annotated[str, AfterValidator(validate_region)] = Field(
        default="europe-west1", description="Region of the functions."
    )
    firestore_location: Annotated[str, AfterValidator(validate_location)] = Field(
        default="europe-west1", description="Location of the databases. It cannot be changed later."
    )
    settings: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the functions."
    )
    secrets: tuple[OptionalSecret, ...] = Field(default=(), description="Optional secrets in use.")
    billing_account: str | None = Field(default=None, description="Billing account of the budget.")
    monthly_budget: int | None = Field(
        default=None, ge=1, description="Budget in the billing account's currency."
    )
    alert_email: Annotated[str, AfterValidator(validate_email)] | None = Field(
        default=None, description="E-mail address that receives alerts."
    )
    embedding_dimension: int = Field(
        default=768, ge=1, le=2048, description="Dimension of vectors and of vector indexes."
    )
    public_url: str | None = Field(
        default=None, description="The gateway's URL, if it has its own domain."
    )
    grant_all_users: bool = Field(
        default=True, description="Whether IAM lets allUsers invoke the gateway."
    )
    min_instances: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="Minimum number of instances by function key."
    )
    max_instances: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="Maximum number of instances by function key."
    )
    protect_data: bool = Field(
        default=True, description="Whether databases are protected from deletion."
    )

    @property
    def bucket(self) -> str:
        """The bucket with Terraform's state, the bundles and the last good release."""
        return f"{self.project}-carrel"

    @property
    def exports_spans(self) -> bool:
        """Whether the functions export spans, and so need the exporter in their bundles."""
        names = ("TELEMETRY", "OTEL_EXPORTER_OTLP_ENDPOINT")
        return any(self.settings.get(name) for name in names)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that commands with --cloud share with the functions.

        The settings override the buckets, and the other derived values override the settings, as in
        Terraform's configuration.
        """
        texts = f"gs://{self.project}-carrel-texts"
        settings = {
            name: value for name, value in self.settings.items() if name != _GATEWAY_ONLY_SETTING
        }
        return {
            "INGEST_BUCKET": f"{texts}/texts",
            "BULK_BUCKET": f"{texts}/bulk",
            **settings,
            "EMBEDDING_DIMENSION": str(self.embedding_dimension),
            "GOOGLE_CLOUD_PROJECT": self.project,
        }

    def to_json(self) -> str:
        """Return the content of the deployment file."""
        return json.dumps(self.model_dump(exclude_none=True), indent=2) + "\n"


def parse_deployment(text: str | bytes, file_name: str) -> Deployment:
    """Parse a description of a deployment.

    Raises:
        CommandFailed: The deployment is not valid. The message names the field.
    """
    try:
        return Deployment.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(map(_describe_error, error.errors()))
        message = f"{file_name} is not valid: {problems}. Correct or delete the file."
        raise CommandFailed(message) from error


def parse_valid_deployment(text: str | bytes, file_name: str) -> Deployment:
    """Parse a description of a deployment, and validate its settings.

    Raises:
        CommandFailed: The deployment is not valid, or its settings would prevent functions from
            starting.
    """
    deployment = parse_deployment(text, file_name)
    require_valid_settings(
        deployment.settings, deployment.secrets, deployment.public_url, file_name
    )
    return deployment


def load_deployment(path: Path = FILE) -> Deployment | None:
    """Load the deployment of this checkout, or return None if there is none.

    Raises:
        CommandFailed: The file is not valid.
    """
    return parse_valid_deployment(path.read_bytes(), path.name) if path.exists() else None


def save_deployment(deployment: Deployment, path: Path = FILE) -> None:
    """Write a deployment file atomically, so that a crash leaves the old or the new file."""
    temporary = path.with_suffix(".new")
    temporary.write_text(deployment.to_json(), encoding="utf-8")
    temporary.replace(path)


def _describe_error(error: ErrorDetails) -> str:
    """Describe what is wrong with a field, and how to write it."""
    path = [str(part) for part in error["loc"]]
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(path)}: {message}{format_example(path[-1]) if path else ''}"
